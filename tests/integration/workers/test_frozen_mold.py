"""The mold stands still (SIGSTOP, a kernel that hangs): no death stays hidden, and no slot or stop waits for ever."""

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from consumer.pool import Pool
from gateway.contract.outcomes import Outcome
from tests.integration.workers.accidents import FORK_GATE, MOLD_GATE
from tests.integration.workers.conftest import NewPool
from tests.integration.workers.orders import order
from tests.support.processes import is_gone
from tests.support.waiting import PATIENCE, soon

pytestmark = pytest.mark.timeout(30)


async def _frozen(pool: Pool) -> None:
    os.kill(pool.mold_pid, signal.SIGSTOP)
    await soon(lambda: psutil.Process(pool.mold_pid).status() == psutil.STATUS_STOPPED)


async def test_worker_that_dies_under_a_frozen_mold_is_charged_and_its_neighbour_is_not(
    new_pool: NewPool, tmp_path: Path
) -> None:
    pool = new_pool(slots=2)
    await pool.start()
    first, second = (asyncio.create_task(pool.run(order(f"deaf {tmp_path / 'never'}"))) for _ in range(2))
    await asyncio.sleep(0)
    frozen, victim = pool.mold_pid, pool.worker_pids()[0]
    await _frozen(pool)
    os.kill(victim, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE):
        died, released = await first, await second
    assert (died.outcome, died.code, died.worker) == (Outcome.CRASHED, "signal:9", victim)
    assert (released.outcome, released.code) == (Outcome.RELEASED, "mold_lost")
    await soon(lambda: pool.ready == 2)
    assert pool.mold_pid != frozen
    assert (await pool.run(order())).outcome is Outcome.SUCCEEDED


async def test_exit_status_is_kept_although_the_mold_never_told_it(pool: Pool) -> None:
    await _frozen(pool)
    report = await pool.run(order("exit 3"))
    assert (report.outcome, report.code, report.evidence["exit_status"]) == (Outcome.CRASHED, "exit:3", 3)
    assert report.evidence["log_tail"] == "one last line\n"


async def test_deadline_under_a_frozen_mold_is_a_deadline(pool: Pool, tmp_path: Path) -> None:
    await _frozen(pool)
    report = await pool.run(order(f"child {tmp_path / 'pid'}", deadline=1.0))
    assert (report.outcome, report.code) == (Outcome.TIMED_OUT, "deadline")
    assert report.seconds < 5
    child = int((tmp_path / "pid").read_text())
    await soon(lambda: is_gone(child))


async def test_worker_that_dies_idle_under_a_frozen_mold_is_replaced(pool: Pool) -> None:
    (before,) = pool.worker_pids()
    await _frozen(pool)
    os.kill(before, signal.SIGKILL)
    await soon(lambda: pool.ready == 0)
    await soon(lambda: pool.ready == 1)
    assert pool.worker_pids() != [before]


async def test_stop_does_not_wait_for_a_frozen_mold(new_pool: NewPool, tmp_path: Path) -> None:
    pool = new_pool(slots=2)
    await pool.start()
    run = asyncio.create_task(pool.run(order(f"deaf {tmp_path / 'never'}")))
    await asyncio.sleep(0)
    await _frozen(pool)
    async with asyncio.timeout(PATIENCE):
        await pool.stop()
    assert (await run).outcome is Outcome.RELEASED


@pytest.fixture
def mold_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    gate = tmp_path / "mold_gate"
    monkeypatch.setenv(MOLD_GATE, str(gate))
    return gate


async def _hangs_at_next_fork(pool: Pool, gate: Path) -> None:
    gate.touch()
    os.kill(pool.worker_pids()[0], signal.SIGKILL)
    await soon(lambda: not gate.exists())


async def test_worker_whose_birth_nobody_announced_gets_no_order_that_it_could_not_be_killed_for(
    new_pool: NewPool, mold_gate: Path
) -> None:
    pool = new_pool(start_deadline=1.0)
    await pool.start()
    frozen = pool.mold_pid
    await _hangs_at_next_fork(pool, mold_gate)
    report = await pool.run(order())
    assert report.outcome is Outcome.SUCCEEDED
    assert pool.mold_pid != frozen


async def test_stop_does_not_wait_for_a_worker_whose_birth_nobody_announced(new_pool: NewPool, mold_gate: Path) -> None:
    pool = new_pool(start_deadline=60)
    await pool.start()
    await _hangs_at_next_fork(pool, mold_gate)
    async with asyncio.timeout(PATIENCE):
        await pool.stop()


async def test_mold_that_stood_still_for_a_moment_is_kept(new_pool: NewPool, tmp_path: Path) -> None:
    pool = new_pool(slots=2)
    await pool.start()
    runs = [asyncio.create_task(pool.run(order(f"wait {tmp_path / 'go'}"))) for _ in range(2)]
    await asyncio.sleep(0)
    mold, victim = pool.mold_pid, pool.worker_pids()[0]
    await _frozen(pool)
    os.kill(victim, signal.SIGKILL)
    await soon(lambda: psutil.Process(victim).status() == psutil.STATUS_ZOMBIE)
    os.kill(mold, signal.SIGCONT)
    died = await runs[0]
    (tmp_path / "go").touch()
    assert (died.outcome, died.code) == (Outcome.CRASHED, "signal:9")
    assert (await runs[1]).outcome is Outcome.SUCCEEDED
    assert pool.mold_pid == mold


async def test_dead_mold_excuses_its_workers_even_if_one_hangs_in_its_birth(
    new_pool: NewPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    monkeypatch.setenv(FORK_GATE, str(gate))
    pool = new_pool(slots=2)
    await pool.start()
    runs_on, goes = pool.worker_pids()
    run = asyncio.create_task(pool.run(order(f"deaf {tmp_path / 'never'}")))
    await asyncio.sleep(0)
    gate.touch()
    os.kill(goes, signal.SIGKILL)
    await soon(lambda: not gate.exists(), saying="its successor must hang")
    os.kill(pool.mold_pid, signal.SIGKILL)
    report = await run
    assert (report.outcome, report.code, report.worker) == (Outcome.RELEASED, "mold_lost", runs_on)
