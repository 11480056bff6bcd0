"""SQLite's driver ends when it is told to, whatever was under way (decision 32)."""

import asyncio
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from consumer.storm import Rule, Tally
from consumer.storm_memory import StoreMemory
from gateway.one_hop import OneHop
from gateway.station.store import Store
from tests.support.waiting import soon

WITHIN = 60.0


async def _all_ended() -> None:
    """Wait for what was left to itself, as the end of a program does."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        _, pending = await asyncio.wait(left, timeout=WITHIN)
        assert not pending, pending


async def test_a_close_beside_which_the_thread_is_stopped_comes_to_its_end(tmp_path: Path) -> None:
    before = threading.active_count()
    connection = await OneHop.to(str(tmp_path / "one.db"))
    closing = asyncio.create_task(connection.close())
    await asyncio.sleep(0)
    connection.stop()
    async with asyncio.timeout(WITHIN):
        await closing
        await connection.close()  # and once more
    await soon(lambda: threading.active_count() == before, WITHIN)


async def test_a_connection_that_was_never_made_is_closed_at_once(tmp_path: Path) -> None:
    async with asyncio.timeout(WITHIN):
        await OneHop.to(str(tmp_path / "one.db")).close()


async def test_a_closed_connection_takes_no_statement(tmp_path: Path) -> None:
    connection = OneHop.to(str(tmp_path / "one.db"))
    await connection
    await connection.close()
    with pytest.raises(ValueError, match="no active connection"):
        await connection.run(lambda _: pytest.fail("nobody is there to do it"))


@pytest.mark.parametrize("turns", range(0, 60, 3))
async def test_a_store_that_is_cancelled_while_it_opens_leaves_nothing_behind_that_waits(
    tmp_path: Path, turns: int
) -> None:
    opening = asyncio.create_task(Store.open(f"sqlite+aiosqlite:///{tmp_path / 'station.db'}"))
    for _ in range(turns):
        await asyncio.sleep(0)
    opening.cancel()
    (opened,) = await asyncio.gather(opening, return_exceptions=True)
    await _all_ended()
    if isinstance(opened, Store):
        await opened.close()


async def test_a_statement_that_is_cancelled_leaves_nothing_behind_that_waits(tmp_path: Path) -> None:
    store = await Store.open(f"sqlite+aiosqlite:///{tmp_path / 'station.db'}")

    begun = asyncio.Event()

    async def ask() -> None:
        counting = (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT max(i) FROM n"
        )
        async with store.reading() as transaction:
            begun.set()
            await transaction.execute(sa.text(counting))

    asking = asyncio.create_task(ask())
    await begun.wait()
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await _all_ended()
    async with asyncio.timeout(WITHIN):
        await store.close()


@pytest.mark.parametrize("turns", range(0, 60, 6))
async def test_a_nodes_storm_memory_that_is_cancelled_leaves_nothing_behind_that_waits(
    tmp_path: Path, turns: int
) -> None:
    memory = StoreMemory(f"sqlite+aiosqlite:///{tmp_path / 'storms.db'}", Rule())
    noting = asyncio.create_task(memory.note("build", [Tally(at=1.0, died="t")], node="n", now=1.0))
    for _ in range(turns):
        await asyncio.sleep(0)
    noting.cancel()
    await asyncio.gather(noting, return_exceptions=True)
    await _all_ended()
    async with asyncio.timeout(WITHIN):
        await memory.close()
