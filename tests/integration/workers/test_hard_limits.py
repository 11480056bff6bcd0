"""The isolation lane: what the kernel holds a run to, and how it is told that a limit was passed."""

import pytest

from consumer.briefing import HardLimits
from gateway.contract.outcomes import Outcome
from tests.integration.workers.conftest import NewPool
from tests.integration.workers.orders import MIB, order

pytestmark = pytest.mark.timeout(60)
UNPRIVILEGED = "tests.integration.workers.unprivileged:handle"


async def test_processor_time_beyond_the_limit_is_a_timeout_that_says_where(new_pool: NewPool) -> None:
    pool = new_pool(fresh=True, hard=HardLimits(cpu_seconds=1))
    await pool.start()
    report = await pool.run(order("burn 600", deadline=50))
    assert (report.outcome, report.code) == (Outcome.TIMED_OUT, "cpu")
    assert report.evidence["limit"] == 1
    assert report.evidence["cpu_user"] + report.evidence.get("cpu_system", 0) >= 0.9
    assert "in handle" in report.evidence["stack"]
    assert "processor time" in report.detail
    assert report.evidence["hard_limits"] == "1 s of processor time, 1024 open files, 64 more processes or threads"


async def test_processor_time_is_limited_by_the_deadline_unless_it_is_set(new_pool: NewPool) -> None:
    pool = new_pool(fresh=True, hard=HardLimits())
    await pool.start()
    report = await pool.run(order("limits cpu", deadline=20))
    soft, hard = map(int, report.evidence["message"].split())
    assert 20 <= soft <= 22
    assert hard == soft + 5


async def test_open_files_beyond_the_limit_are_the_handlers_own_failure(new_pool: NewPool) -> None:
    pool = new_pool(fresh=True, hard=HardLimits(open_files=40))
    await pool.start()
    report = await pool.run(order("open 100"))
    assert (report.outcome, report.code) == (Outcome.FAILED, "OSError")
    assert "Too many open files" in report.evidence["message"]
    assert "40 open files" in report.evidence["hard_limits"]


async def test_processes_beyond_the_limit_are_the_handlers_own_failure_and_die_with_the_worker(
    new_pool: NewPool,
) -> None:
    pool = new_pool(handler=UNPRIVILEGED, fresh=True, hard=HardLimits(processes=10))
    await pool.start()
    report = await pool.run(order("multiply 2000"))
    assert (report.outcome, report.code) == (Outcome.FAILED, "BlockingIOError")
    assert (await pool.run(order("fine"))).outcome is Outcome.SUCCEEDED


async def test_walls_of_the_isolation_lane_cannot_be_moved(new_pool: NewPool) -> None:
    pool = new_pool(handler=UNPRIVILEGED, fresh=True, hard=HardLimits(open_files=40))
    await pool.start()
    for which in ("memory", "files", "processes"):
        report = await pool.run(order(f"limits {which}", memory_limit=200 * MIB))
        soft, hard = map(int, report.evidence["message"].split())
        assert 0 < soft == hard, which


async def test_work_lane_has_none_of_these_limits(new_pool: NewPool) -> None:
    pool = new_pool()
    await pool.start()
    unlimited = (await pool.run(order("limits cpu"))).evidence["message"].split()
    assert unlimited == ["-1", "-1"]
    assert "hard_limits" not in (await pool.run(order("exit 1"))).evidence
