"""Workers and molds that have served long enough are replaced between runs, and no run pays for it (C14, D22, D23)."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import psutil
import pytest

from consumer.execution import RunReport
from consumer.metrics import REGISTRY
from consumer.pool import Pool
from consumer.recycle import Limits, allowance
from gateway.contract.outcomes import Outcome
from tests.integration.workers.aging import MOLD_LEAK, NOTES
from tests.integration.workers.conftest import NewPool
from tests.integration.workers.orders import MIB, order
from tests.support.waiting import soon

pytestmark = pytest.mark.timeout(170)

AGING = "tests.integration.workers.aging:handle"


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "notes"
    monkeypatch.setenv(NOTES, str(path))
    return path


def _noted(notes: Path, what: str) -> list[str]:
    lines = notes.read_text().splitlines() if notes.exists() else []
    return [line.partition(" ")[2].removeprefix(f"{what} ") for line in lines if f" {what} " in line]


async def _aging(new_pool: NewPool, slots: int = 1, **limits: int) -> Pool:
    pool = new_pool(handler=AGING, slots=slots, recycle=Limits(**limits))
    await pool.start()
    return pool


async def _run(pool: Pool, text: str, times: int, at_once: int = 1) -> list[RunReport]:
    """Run so many orders as a node does: never more at once than there are slots."""
    reports: list[RunReport] = []
    left = iter(range(times))

    async def one_after_the_other() -> None:
        reports.extend([await pool.run(order(text)) for _ in left])

    await asyncio.gather(*(one_after_the_other() for _ in range(at_once)))
    return reports


def _exits(cause: str) -> float:
    return sum(
        sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.name == "lazaretto_worker_exits_total" and sample.labels["cause"] == cause
    )


@pytest.mark.timeout(180)
async def test_2000_runs_with_recycling_after_every_run_lose_repeat_and_charge_nothing(
    new_pool: NewPool, notes: Path
) -> None:
    recycled, crashed = _exits("recycle_runs"), _exits("died")
    pool = await _aging(new_pool, slots=4, runs=1)
    reports = await _run(pool, "fine", 2000, at_once=4)
    assert Counter(report.outcome for report in reports) == {Outcome.SUCCEEDED: 2000}
    ran = Counter(_noted(notes, "ran"))
    assert len(ran) == 2000
    assert set(ran.values()) == {1}
    await soon(lambda: pool.ready == 4 and len(pool.worker_pids()) <= 5)
    assert _exits("recycle_runs") - recycled >= 10
    assert _exits("died") == crashed, "a worker that leaves as told is no crash"


async def test_worker_is_recycled_after_its_runs_and_another_one_is_there_before_it_leaves(new_pool: NewPool) -> None:
    pool = await _aging(new_pool, runs=20)
    (first,) = pool.worker_pids()
    seen: set[int] = set()
    for _ in range(60):
        report = await pool.run(order("nap"))
        seen.add(report.worker)
        assert pool.ready == 1, "its place is never empty"
        if len(seen) == 2:
            break
    assert len(seen) == 2
    await soon(lambda: not psutil.pid_exists(first))
    assert (await pool.run(order())).worker in seen


async def test_workers_that_are_due_together_leave_one_after_the_other(new_pool: NewPool) -> None:
    """D22: four workers, equal load, one limit."""
    pool = await _aging(new_pool, slots=4, runs=25)
    ready: list[int] = []
    alive: list[int] = []

    def look() -> None:
        ready.append(pool.ready)
        alive.append(len(pool.worker_pids()))

    async def loaded() -> None:
        while True:
            look()
            await asyncio.sleep(0)

    watching = asyncio.create_task(loaded())
    reports = await _run(pool, "nap", 400, at_once=4)
    watching.cancel()
    assert {report.outcome for report in reports} == {Outcome.SUCCEEDED}
    assert len({report.worker for report in reports}) > 8
    assert min(ready) >= 4 - allowance(4)
    assert max(alive) <= 4 + allowance(4)


async def test_worker_over_its_memory_limit_is_recycled_between_runs(new_pool: NewPool) -> None:
    recycled = _exits("recycle_rss")
    pool = await _aging(new_pool, rss=64 * MIB)
    reports = await _run(pool, "leak 10", 40)
    assert {report.outcome for report in reports} == {Outcome.SUCCEEDED}
    assert len({report.worker for report in reports}) >= 4
    await soon(lambda: _exits("recycle_rss") - recycled >= 3)


async def test_spike_that_is_given_back_recycles_nobody(new_pool: NewPool) -> None:
    """D23: 400 MB inside of a run, none of it between runs."""
    pool = await _aging(new_pool, rss=64 * MIB)
    (worker,) = pool.worker_pids()
    reports = await _run(pool, "spike 400", 3) + await _run(pool, "fine", 20)
    assert {report.worker for report in reports} == {worker}
    assert {report.outcome for report in reports} == {Outcome.SUCCEEDED}


async def test_limit_under_the_idle_baseline_is_a_warning_and_recycles_nobody(
    new_pool: NewPool, caplog: pytest.LogCaptureFixture
) -> None:
    pool = await _aging(new_pool, slots=2, rss=64 * 1024)
    before = set(pool.worker_pids())
    reports = await _run(pool, "fine", 50, at_once=2)
    assert {report.worker for report in reports} <= before
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "recycle.limit_too_low"
    ]


async def test_nothing_is_recycled_where_recycling_is_off(new_pool: NewPool) -> None:
    pool = await _aging(new_pool, runs=0, rss=0)
    (worker,) = pool.worker_pids()
    assert {report.worker for report in await _run(pool, "leak 1", 100)} == {worker}


@pytest.mark.parametrize("way", ["recycled", "stopped"])
async def test_exit_hooks_flush_what_was_buffered_when_a_worker_leaves(
    new_pool: NewPool, notes: Path, way: str
) -> None:
    pool = await _aging(new_pool, runs=1 if way == "recycled" else 0)
    await pool.run(order("buffer precious"))
    if way == "stopped":
        await pool.stop()
    await soon(lambda: _noted(notes, "flushed") == ["asynchronously", "precious"])


async def test_exit_hooks_run_in_the_lane_that_gives_every_run_a_fresh_worker(new_pool: NewPool, notes: Path) -> None:
    pool = new_pool(handler=AGING, fresh=True)
    await pool.start()
    await pool.run(order("buffer once"))
    await soon(lambda: _noted(notes, "flushed") == ["asynchronously", "once"])
    assert (await pool.run(order())).outcome is Outcome.SUCCEEDED


async def test_killed_worker_runs_no_exit_hook(new_pool: NewPool, notes: Path) -> None:
    pool = await _aging(new_pool)
    (worker,) = pool.worker_pids()
    await pool.run(order("buffer lost"))
    os.kill(worker, signal.SIGKILL)
    await soon(lambda: worker not in pool.worker_pids() and pool.ready == 1)
    assert _noted(notes, "flushed") == []


async def test_exit_hook_that_does_not_end_is_killed_and_charges_nobody(new_pool: NewPool) -> None:
    pool = await _aging(new_pool, runs=2)
    (worker,) = pool.worker_pids()
    await pool.run(order("cling"))
    reports = await _run(pool, "nap", 20)
    await soon(lambda: not psutil.pid_exists(worker), 30.0)
    reports += await _run(pool, "nap", 20)
    assert {report.outcome for report in reports} == {Outcome.SUCCEEDED}
    assert pool.ready == 1


async def test_mold_that_has_grown_is_replaced_while_runs_go_on(
    new_pool: NewPool, notes: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(MOLD_LEAK, "12")
    pool = await _aging(new_pool, slots=2, runs=3, rss=64 * MIB)
    first = pool.mold_pid
    long = asyncio.create_task(pool.run(order(f"wait {tmp_path / 'go'}", deadline=110.0)))
    reports: list[RunReport] = []
    async with asyncio.timeout(100):
        while pool.mold_pid == first:
            reports += await _run(pool, "nap", 5)
            assert pool.ready == 2
    assert psutil.pid_exists(first), "it has a worker whose run goes on"
    (tmp_path / "go").touch()
    reports.append(await long)
    reports += await _run(pool, "fine", 20, at_once=2)
    await soon(lambda: not psutil.pid_exists(first), 30.0)
    assert {report.outcome for report in reports} == {Outcome.SUCCEEDED}
    assert set(Counter(_noted(notes, "ran")).values()) == {1}


async def test_old_mold_that_is_killed_takes_only_its_own_workers_along(
    new_pool: NewPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(MOLD_LEAK, "12")
    pool = await _aging(new_pool, slots=2, runs=3, rss=64 * MIB)
    first = pool.mold_pid
    old = asyncio.create_task(pool.run(order(f"wait {tmp_path / 'go'}", deadline=110.0)))
    async with asyncio.timeout(100):
        while pool.mold_pid == first:
            await _run(pool, "nap", 5)
    monkeypatch.setenv(MOLD_LEAK, "0")
    os.kill(first, signal.SIGKILL)
    assert (await old).outcome is Outcome.RELEASED
    reports = await _run(pool, "nap", 20, at_once=2)
    assert {report.outcome for report in reports} == {Outcome.SUCCEEDED}
    await soon(lambda: pool.ready == 2)


async def test_growth_per_run_and_the_memory_at_exit_are_measured(new_pool: NewPool) -> None:
    pool = await _aging(new_pool, runs=60)
    await _run(pool, "leak 1", 80)
    growth = await soon(lambda: REGISTRY.get_sample_value("lazaretto_worker_growth_bytes_per_run"))
    assert growth == pytest.approx(MIB, rel=0.3)
    assert (REGISTRY.get_sample_value("lazaretto_mold_rss_bytes") or 0) > 5 * MIB
