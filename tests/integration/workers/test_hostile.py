"""Handlers that fight their worker: whatever they do costs nobody but the run that did it."""

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from consumer.recycle import Limits
from gateway.contract.outcomes import Outcome
from tests.integration.workers.conftest import NewPool
from tests.integration.workers.orders import order
from tests.support.processes import is_gone
from tests.support.program import Programs
from tests.support.waiting import eventually, soon

pytestmark = pytest.mark.timeout(120)
HOSTILE = "tests.integration.workers.hostile:handle"


async def test_copy_of_a_worker_that_comes_back_from_the_handler_says_nothing_for_the_next_ticket(
    new_pool: NewPool, tmp_path: Path
) -> None:
    pool = new_pool(handler=HOSTILE)
    await pool.start()
    first = await pool.run(order(f"fork {tmp_path / 'copy'}"))
    (worker,) = pool.worker_pids()
    (copy,) = psutil.Process(worker).children()
    second = asyncio.create_task(pool.run(order(f"wait {tmp_path / 'go'}", deadline=110.0)))
    (tmp_path / "copy").touch()
    await soon(lambda: is_gone(copy), 30.0)
    (tmp_path / "go").touch()
    reports = [first, await second, *[await pool.run(order("fine")) for _ in range(3)]]
    assert {(report.outcome, report.worker) for report in reports} == {(Outcome.SUCCEEDED, worker)}


@pytest.mark.parametrize("way", ["babble", "call_out"])
async def test_worker_that_never_stops_speaking_is_stopped_at_its_deadline_and_holds_up_nobody(
    new_pool: NewPool, way: str
) -> None:
    pool = new_pool(handler=HOSTILE, slots=2)
    await pool.start()
    loud = asyncio.create_task(pool.run(order(way, deadline=2.0)))
    reports = [await pool.run(order("fine", deadline=110.0)) for _ in range(10)]
    assert {report.outcome for report in reports} == {Outcome.SUCCEEDED}
    report = await loud
    assert (report.outcome, report.code) == (Outcome.TIMED_OUT, "deadline")


async def test_worker_that_leaves_and_says_that_it_is_ready_is_killed_when_its_time_is_over(new_pool: NewPool) -> None:
    pool = new_pool(handler=HOSTILE, recycle=Limits(runs=1))
    await pool.start()
    stays = await pool.run(order("stay"))
    assert stays.outcome is Outcome.SUCCEEDED
    await soon(lambda: stays.worker not in pool.worker_pids(), 60.0)
    assert (await pool.run(order("fine"))).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("way", ["mute", "hang_up"])
async def test_handler_that_closes_what_it_prints_to_has_not_failed_by_that(new_pool: NewPool, way: str) -> None:
    pool = new_pool(handler=HOSTILE)
    await pool.start()
    reports = [await pool.run(order(text)) for text in (way, "fine")]
    assert {report.outcome for report in reports} == {Outcome.SUCCEEDED}


async def test_file_beyond_the_size_that_the_system_allows_is_the_handlers_own_failure(new_pool: NewPool) -> None:
    pool = new_pool(handler=HOSTILE)
    await pool.start()
    report = await pool.run(order("too_large"))
    assert (report.outcome, report.code) == (Outcome.FAILED, "OSError")


@pytest.mark.parametrize("way", ["leave_oddly", "raise_at_exit"])
async def test_worker_that_leaves_in_its_own_way_is_no_crash(new_pool: NewPool, way: str) -> None:
    pool = new_pool(handler=HOSTILE, recycle=Limits(runs=2))
    await pool.start()
    (worker,) = pool.worker_pids()
    reports = [await pool.run(order(way))]
    async with asyncio.timeout(60):
        while worker in pool.worker_pids():
            reports.append(await pool.run(order("fine")))
    assert {report.outcome for report in reports} == {Outcome.SUCCEEDED}


async def test_worker_deaf_to_every_signal_is_killed_at_its_deadline(new_pool: NewPool) -> None:
    pool = new_pool(handler=HOSTILE)
    await pool.start()
    report = await pool.run(order("deafen", deadline=1.0))
    assert (report.outcome, report.code) == (Outcome.TIMED_OUT, "deadline")
    assert (await pool.run(order("fine"))).outcome is Outcome.SUCCEEDED


async def test_handler_with_a_loop_and_signal_handlers_of_its_own_says_where_it_hangs(new_pool: NewPool) -> None:
    pool = new_pool(handler=HOSTILE)
    await pool.start()
    assert (await pool.run(order("own_loop 0.01"))).outcome is Outcome.SUCCEEDED
    hangs = await pool.run(order("own_loop 600", deadline=1.0))
    assert hangs.outcome is Outcome.TIMED_OUT
    assert "in handle" in hangs.evidence["stack"]


def test_no_worker_outlives_its_supervisor_although_its_mold_was_stopped(programs: Programs, tmp_path: Path) -> None:
    never = tmp_path / "never"
    node = programs.python("node", "-m", "tests.integration.workers.node", f"deaf {never}", f"deaf {never}")
    mold = int(node.wait_for_log(r"^up \d+ mold (\d+) workers \d+ \d+$")[1])
    os.kill(mold, signal.SIGSTOP)
    node.signal(signal.SIGKILL)
    eventually(lambda: not node.children(), 30.0)
