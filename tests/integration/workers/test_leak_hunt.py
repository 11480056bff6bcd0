"""One worker is never recycled and says where its memory grows (C15)."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from consumer.pool import Pool
from consumer.recycle import Limits
from gateway.contract.outcomes import Outcome
from tests.integration.workers.conftest import NewPool
from tests.integration.workers.orders import MIB, order
from tests.support.waiting import soon

pytestmark = pytest.mark.timeout(120)


async def _hunting(
    new_pool: NewPool, *, every: int, slots: int = 1, runs: int = 0
) -> tuple[Pool, list[dict[str, Any]]]:
    pool = new_pool(
        handler="tests.integration.workers.aging:handle", slots=slots, recycle=Limits(runs=runs), hunt=every
    )
    found: list[dict[str, Any]] = []
    pool.on_growth(found.append)
    await pool.start()
    return pool, found


async def test_leak_hunt_names_the_place_that_grows(new_pool: NewPool, caplog: pytest.LogCaptureFixture) -> None:
    pool, found = await _hunting(new_pool, every=10)
    for _ in range(30):
        assert (await pool.run(order("leak 1"))).outcome is Outcome.SUCCEEDED
    await soon(lambda: len(found) == 2)
    for facts, runs in zip(found, (10, 20), strict=True):
        assert facts["runs"] == runs
        top = facts["sites"][0]
        assert "aging.py" in top["where"]
        assert top["bytes"] == pytest.approx(runs * MIB, rel=0.01)
        assert facts["traced"] >= top["bytes"]
        assert facts["private"] > facts["baseline"] + runs * MIB
    told = [vars(record)["lazaretto_fields"] for record in caplog.records if record.getMessage() == "leak.growth"]
    assert "aging.py" in told[-1]["places"]


async def test_hunted_worker_is_exempt_from_recycling_and_the_others_are_not(new_pool: NewPool) -> None:
    pool, found = await _hunting(new_pool, every=50, slots=2, runs=5)
    before = pool.worker_pids()

    async def keep_busy() -> list[Outcome]:
        return [(await pool.run(order("nap"))).outcome for _ in range(60)]

    outcomes = [*(await asyncio.gather(keep_busy(), keep_busy()))]
    assert {outcome for some in outcomes for outcome in some} == {Outcome.SUCCEEDED}
    (hunted,) = set(before) & set(pool.worker_pids())
    await soon(lambda: all(not psutil.pid_exists(pid) for pid in before if pid != hunted))
    assert {facts["worker"] for facts in found} <= {hunted}


@pytest.mark.parametrize("end", ["killed idle", "killed in its run", "used up"])
async def test_hunt_goes_on_in_another_worker_when_the_hunted_one_ends(
    new_pool: NewPool, end: str, tmp_path: Path
) -> None:
    pool, found = await _hunting(new_pool, every=5)
    (first,) = pool.worker_pids()
    if end == "killed in its run":
        await pool.run(order(f"wait {tmp_path / 'never'}", deadline=0.5))
    elif end == "used up":
        await pool.run(order("gulp"))
    else:
        os.kill(first, signal.SIGKILL)
    await soon(lambda: first not in pool.worker_pids() and pool.ready == 1)
    for _ in range(10):
        await pool.run(order("leak 1"))
    await soon(lambda: found)
    assert [facts["worker"] for facts in found] == pool.worker_pids()
