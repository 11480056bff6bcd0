"""Pools of real processes that are stopped whatever a test does."""

import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import psutil
import pytest

from consumer.pool import Pool

HANDLER = "tests.integration.workers.accidents:handle"

NewPool: TypeAlias = Callable[..., Pool]


@pytest.fixture
async def new_pool() -> AsyncIterator[NewPool]:
    """Launch pools; at the end each is stopped and no process of theirs may be left."""
    assert sys.platform == "linux"
    pools: list[Pool] = []
    before = _molds_and_workers()

    def launch(handler: str = HANDLER, **options: Any) -> Pool:
        pool = Pool.launch(**{"handler": handler, "slots": 1, "warm": False, **options})
        pools.append(pool)
        return pool

    yield launch
    for pool in pools:
        await pool.stop()
    left = _molds_and_workers() - before
    assert not left, f"processes left behind: {left}"


def _molds_and_workers() -> set[int]:
    """Return the process ids of our children that run a mold's code; a broker may come and go beside them."""
    found = set()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "consumer.worker.mold" in " ".join(child.cmdline()):
                found.add(child.pid)
    return found


@pytest.fixture
async def pool(new_pool: NewPool) -> Pool:
    """One started pool with one slot."""
    one = new_pool()
    await one.start()
    return one
