"""A node's sweeping of the store, on real stores: a table that takes a row for each ticket must not outgrow it."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import func, insert, select
from sqlalchemy.ext.asyncio import create_async_engine

from consumer.fence import StoreFence
from consumer.heart import Heart
from consumer.settings import Settings
from consumer.store import starts

ENDED = 2_300


def settings(**values: float) -> Settings:
    return Settings(handler="any:handler", **values)  # type: ignore[arg-type]


@pytest.fixture
async def fence(store_url: str) -> AsyncIterator[StoreFence]:
    opened = await StoreFence.open(store_url)
    engine = create_async_engine(store_url)
    row = {"generation": 0, "attempt": 1, "interruptions": 0, "holder": "n1", "started_at": 1.0, "digest": "d"}
    ended = [{**row, "ticket": f"ended-{n}", "closed": True, "ended_at": 2.0} for n in range(ENDED)]
    still_open = {**row, "ticket": "open", "closed": False, "ended_at": None}
    async with engine.begin() as connection:
        await connection.execute(insert(starts), [*ended, still_open])
    await engine.dispose()
    yield opened
    await opened.close()


async def tickets(store_url: str) -> int:
    engine = create_async_engine(store_url)
    async with engine.connect() as connection:
        found = (await connection.execute(select(func.count()).select_from(starts))).scalar_one()
    await engine.dispose()
    return int(found)


async def test_a_sweep_removes_all_that_ended_long_ago_however_much_that_is(fence: StoreFence, store_url: str) -> None:
    heart = Heart(settings(beat=100.0), fence)
    assert await heart.sweep()
    assert await tickets(store_url) == 1


async def test_a_sweep_that_would_make_a_beat_late_goes_on_with_the_next_one(fence: StoreFence, store_url: str) -> None:
    heart = Heart(settings(beat=0.001), fence)
    sweeps = 1
    while not await heart.sweep():
        sweeps += 1
    assert sweeps > ENDED // 500
    assert await tickets(store_url) == 1


async def test_a_node_that_keeps_tickets_for_ever_removes_none(fence: StoreFence, store_url: str) -> None:
    assert await Heart(settings(fence_retention=0.0), fence).sweep()
    assert await tickets(store_url) == ENDED + 1
