"""What is known about a run that went wrong: where it hung, what it used, what it printed, who ran beside it."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from consumer.pool import Pool
from gateway.contract.outcomes import Outcome
from tests.integration.workers.conftest import NewPool
from tests.integration.workers.orders import order
from tests.support.waiting import soon

pytestmark = pytest.mark.timeout(60)
ASYNC = "tests.integration.workers.accidents:handle_async"


async def test_run_that_hangs_at_its_deadline_says_where(pool: Pool, tmp_path: Path) -> None:
    report = await pool.run(order(f"deaf {tmp_path / 'never'}", deadline=0.5))
    assert (report.outcome, report.code) == (Outcome.TIMED_OUT, "deadline")
    assert "accidents.py" in report.evidence["stack"]
    assert "in handle" in report.evidence["stack"]


async def test_run_that_falls_silent_says_where(pool: Pool, tmp_path: Path) -> None:
    report = await pool.run(order(f"deaf {tmp_path / 'never'}", heartbeat=0.5))
    assert "in handle" in report.evidence["stack"]


@pytest.mark.parametrize("accident", ["block", "redos"])
async def test_run_that_hangs_in_native_code_says_where(pool: Pool, accident: str) -> None:
    report = await pool.run(order(accident, deadline=1.0))
    assert report.outcome is Outcome.TIMED_OUT
    assert "in handle" in report.evidence["stack"]


async def test_asynchronous_run_that_waits_for_ever_says_what_it_waits_for(new_pool: NewPool) -> None:
    pool = new_pool(handler=ASYNC)
    await pool.start()
    report = await pool.run(order("sleep", deadline=1.0))
    assert report.outcome is Outcome.TIMED_OUT
    assert "in handle_async" in report.evidence["stack"]


async def test_worker_that_cannot_even_answer_is_killed_without_a_stack(pool: Pool, tmp_path: Path) -> None:
    run = asyncio.create_task(pool.run(order(f"deaf {tmp_path / 'never'}", deadline=1.0)))
    await asyncio.sleep(0)
    os.kill(pool.worker_pids()[0], signal.SIGSTOP)
    report = await run
    assert (report.outcome, report.code) == (Outcome.TIMED_OUT, "deadline")
    assert "stack" not in report.evidence


async def test_usage_is_that_of_the_run_alone(pool: Pool) -> None:
    first = await pool.run(order("burn 0.6"))
    second = await pool.run(order("burn 0.1"))
    assert first.worker == second.worker
    assert first.evidence["cpu_user"] + first.evidence["cpu_system"] >= 0.5
    used = second.evidence["cpu_user"] + second.evidence.get("cpu_system", 0.0)
    assert 0.05 <= used < 0.6, "what the first run used is not the second's"
    assert second.evidence["minor_faults"] > 0


async def test_usage_of_a_run_that_dies_is_told_by_the_kernel(pool: Pool) -> None:
    before = await pool.run(order("burn 0.5"))
    report = await pool.run(order("burn 60", deadline=1.5))
    assert before.worker == report.worker
    assert report.outcome is Outcome.TIMED_OUT
    assert 0 < report.evidence["cpu_user"] + report.evidence["cpu_system"] < 4
    assert report.evidence["last_rss"] > 64 << 20
    assert report.evidence["peak_rss"] >= report.evidence["last_rss"]


async def test_last_fifty_lines_of_the_run_are_kept_whatever_wrote_them(pool: Pool) -> None:
    await pool.run(order("chatter 3"))
    report = await pool.run(order("chatter 120"))
    lines = report.evidence["log_tail"].splitlines()
    assert len(lines) == 50
    assert {"native descriptor", "native stream"} <= set(lines)
    assert lines[:1] == ["line 72"]
    fresh = await pool.run(order("exit 1"))
    assert fresh.evidence["log_tail"] == "one last line\n", "nothing of an earlier run"


async def test_last_lines_of_native_code_outlive_its_crash(pool: Pool) -> None:
    report = await pool.run(order("last_gasp"))
    assert (report.outcome, report.code) == (Outcome.CRASHED, "signal:6")
    assert "native last words\n" in report.evidence["log_tail"]


async def test_what_else_ran_is_named_and_bounded(new_pool: NewPool, tmp_path: Path) -> None:
    pool, gate = new_pool(slots=3), tmp_path / "go"
    await pool.start()
    others = [order(f"wait {gate}", kind=kind) for kind in ("a", "b")]
    runs = [asyncio.create_task(pool.run(one)) for one in others]
    await soon(lambda: len(pool.worker_pids()) == 3)
    report = await pool.run(order("exit 1"))
    gate.touch()
    fine = await asyncio.gather(*runs)
    assert sorted(report.evidence["alongside"]) == sorted(f"{one.kind} {one.ticket}" for one in others)
    assert all("alongside" not in one.evidence for one in fine), "a run that went well needs no witnesses"
