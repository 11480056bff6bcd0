"""What the nodes of a build remember together, in a real store of each kind and in one process alone (C12)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import create_async_engine

from consumer.fence import FenceUnavailable, StoreFence
from consumer.storm import Rule, Tally
from consumer.storm_memory import OwnMemory, StoreMemory, StormMemory, first_runs

RULE = Rule()
NOW = 10_000.0


def died(ticket: object, at: float = NOW) -> Tally:
    return Tally(at=at, died=str(ticket), evidence="signal:11")


@pytest.fixture
async def url(store_url: str) -> str:
    await (await StoreFence.open(store_url)).close()
    return store_url


@pytest.fixture(params=["store", "own"])
async def memory(request: pytest.FixtureRequest, url: str) -> AsyncIterator[StormMemory]:
    made: StormMemory = StoreMemory(url, RULE) if request.param == "store" else OwnMemory(RULE)
    yield made
    await made.close()


@pytest.fixture
async def shared(url: str) -> AsyncIterator[tuple[StoreMemory, StoreMemory]]:
    first, second = StoreMemory(url, RULE), StoreMemory(url, RULE)
    yield first, second
    await first.close()
    await second.close()


async def test_the_fifth_death_stops_the_build_and_what_comes_after_finds_it_stopped(memory: StormMemory) -> None:
    told = [await memory.note("b", [died(n)], node="n1", now=NOW) for n in range(6)]
    assert [storm is not None for storm in told] == [False] * 4 + [True] * 2
    assert told[4] == told[5] == await memory.note("b", [], node="n2", now=NOW + 1e6)
    assert told[4] is not None
    assert (told[4].items, told[4].by) == (("0", "1", "2", "3", "4"), "n1")


async def test_runs_that_were_survived_count_before_the_death_they_are_told_with(memory: StormMemory) -> None:
    for n in range(20):
        tally = Tally(at=NOW, survived=9, died=str(n), evidence="signal:9")
        assert await memory.note("b", [tally], node="n1", now=NOW) is None


async def test_a_storm_is_announced_once_and_owed_until_then(memory: StormMemory) -> None:
    assert not await memory.owes_alert("b")
    for n in range(5):
        await memory.note("b", [died(n)], node="n1", now=NOW)
    assert await memory.owes_alert("b")
    assert await memory.owes_alert("b")
    await memory.announced("b")
    assert not await memory.owes_alert("b")


async def test_a_lifted_build_begins_with_a_clean_window_and_is_lifted_once(memory: StormMemory) -> None:
    assert not await memory.lift("b")
    for n in range(5):
        await memory.note("b", [died(n)], node="n1", now=NOW)
    assert await memory.lift("b")
    assert not await memory.lift("b")
    told = [await memory.note("b", [died(n)], node="n1", now=NOW) for n in range(10, 15)]
    assert [storm is not None for storm in told] == [False] * 4 + [True]
    assert await memory.owes_alert("b")


async def test_nodes_that_share_a_store_count_together_and_stop_together(
    shared: tuple[StoreMemory, StoreMemory],
) -> None:
    told = await asyncio.gather(*(shared[n % 2].note("b", [died(n)], node=f"n{n % 2}", now=NOW) for n in range(10)))
    assert sum(storm is None for storm in told) == 4
    assert all([await memory.note("b", [], node="n", now=NOW) for memory in shared])
    await shared[0].lift("b")
    assert await shared[1].note("b", [], node="n", now=NOW) is None


async def test_another_build_knows_nothing_of_it(shared: tuple[StoreMemory, StoreMemory]) -> None:
    for n in range(5):
        await shared[0].note("b@1", [died(n)], node="n1", now=NOW)
    assert await shared[1].note("b@2", [died(5)], node="n1", now=NOW) is None


async def test_a_death_that_is_told_again_since_its_answer_was_lost_counts_once(
    shared: tuple[StoreMemory, StoreMemory],
) -> None:
    for n in (0, 1, 2, 3, 3, 3):
        assert await shared[0].note("b", [died(n)], node="n1", now=NOW) is None
    assert (await shared[0].note("b", [died(4)], node="n1", now=NOW)).deaths == 5  # type: ignore[union-attr]


async def test_a_store_that_gives_no_answer_is_told_as_that(tmp_path: Path) -> None:
    memory = StoreMemory(f"sqlite+aiosqlite:///{tmp_path / 'no' / 'folder.db'}", RULE)
    with pytest.raises(FenceUnavailable):
        await memory.note("b", [], node="n1", now=NOW)
    await memory.close()


async def test_first_runs_of_builds_that_nobody_runs_any_more_are_removed_when_a_day_is_over(
    shared: tuple[StoreMemory, StoreMemory], url: str
) -> None:
    for n in range(4):
        await shared[0].note("old", [died(n)], node="n1", now=NOW)
    await shared[0].note("new", [died(4, NOW + 80_000)], node="n1", now=NOW + 80_000)
    assert await builds_on_record(url) == ["new", "old", "old", "old", "old"]
    await shared[0].note("new", [died(5, NOW + 90_000)], node="n1", now=NOW + 90_000)
    assert await builds_on_record(url) == ["new"]


async def builds_on_record(url: str) -> list[str]:
    engine = create_async_engine(url)
    async with engine.connect() as connection:
        found = (await connection.execute(select(first_runs.c.build).order_by(first_runs.c.build))).scalars().all()
    await engine.dispose()
    return list(found)
