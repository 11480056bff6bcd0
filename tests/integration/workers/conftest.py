"""Pools of real processes that are stopped whatever a test does."""

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
    before = {child.pid for child in psutil.Process().children(recursive=True)}

    def launch(handler: str = HANDLER, **options: Any) -> Pool:
        pool = Pool.launch(**{"handler": handler, "slots": 1, "warm": False, **options})
        pools.append(pool)
        return pool

    yield launch
    for pool in pools:
        await pool.stop()
    left = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
    assert not left, f"processes left behind: {left}"


@pytest.fixture
async def pool(new_pool: NewPool) -> Pool:
    """One started pool with one slot."""
    one = new_pool()
    await one.start()
    return one
