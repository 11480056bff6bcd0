"""What a door asks the store is answered in time, and what nobody waits for any more is undone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import sqlalchemy as sa

from gateway.repetitions import NoStore, Repetitions
from gateway.states import States
from gateway.station.store import Store
from gateway.station.submissions import Claimed, Recorded
from gateway.station.tables.submissions import submissions
from tests.support.postgresql import Postgresql
from tests.support.waiting import soon


@asynccontextmanager
async def _asking(url: str) -> AsyncIterator[tuple[Repetitions, Store]]:
    states = States(url)
    repetitions = Repetitions(states, lease=60, keep=3600)
    tasks = [asyncio.create_task(part.run()) for part in (states, repetitions)]
    try:
        await soon(lambda: states.store is not None)
        assert states.store is not None
        yield repetitions, states.store
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await states.close()


async def test_a_claim_that_came_too_late_is_released_again(postgresql: Postgresql) -> None:
    async with _asking(await asyncio.to_thread(postgresql.database)) as (repetitions, store):
        async with store.writing() as other:
            await other.execute(sa.text("LOCK TABLE submissions IN ACCESS EXCLUSIVE MODE"))
            with pytest.raises(NoStore):
                await repetitions.claim("late", "d")
        await soon(lambda: _is_released(store))

        assert (await repetitions.claim("late", "d"))[1] == Claimed(taken_over=True)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions wait for as long as a crowded machine takes: how soon one is given up is not what is shown here."""
    monkeypatch.setattr("gateway.repetitions.DEADLINE", 60.0)


async def _is_released(store: Store) -> bool:
    async with store.reading() as transaction:
        return await transaction.scalar(sa.select(submissions.c.held_until)) == 0.0


async def test_a_store_that_hangs_is_given_up_and_asked_again(postgresql: Postgresql) -> None:
    async with _asking(await asyncio.to_thread(postgresql.database)) as (repetitions, store):
        async with store.writing() as other:
            await other.execute(sa.text("LOCK TABLE submissions IN ACCESS EXCLUSIVE MODE"))
            for ticket in ("first", "second", "third"):  # longer than one transaction is waited for
                with pytest.raises(NoStore):
                    await repetitions.claim(ticket, "d")

        async def claimed() -> bool:
            try:
                return isinstance((await repetitions.claim("fourth", "d"))[1], Claimed)
            except NoStore:
                return False

        assert await soon(claimed)


@pytest.mark.usefixtures("patient")
async def test_what_is_asked_before_it_is_known_whether_there_is_a_store_waits_for_that(store_url: str) -> None:
    states = States(store_url)
    repetitions = Repetitions(states, lease=60, keep=3600)
    asking = asyncio.create_task(repetitions.run())
    claim = asyncio.create_task(repetitions.claim("early", "d"))
    await asyncio.wait({claim}, timeout=0.05)  # time enough to be told that there is none
    looking = asyncio.create_task(states.run())
    try:
        assert (await claim)[1] == Claimed()
    finally:
        for task in (asking, looking):
            task.cancel()
        await asyncio.gather(asking, looking, return_exceptions=True)
        await states.close()


@pytest.mark.usefixtures("patient")
async def test_many_at_once_share_their_transactions(store_url: str) -> None:
    async with _asking(store_url) as (repetitions, _):
        claims = await asyncio.gather(*(repetitions.claim(f"ticket-{number}", "d") for number in range(300)))
        recorded = await asyncio.gather(*(repetitions.record(held, 202, b"yes") for held, _ in claims))
        again = await asyncio.gather(*(repetitions.claim(f"ticket-{number}", "d") for number in range(300)))

        assert [found for _, found in claims] == [Claimed()] * 300
        assert recorded == [found for _, found in again] == [Recorded(status=202, answer=b"yes")] * 300


@pytest.mark.usefixtures("patient")
async def test_who_releases_a_claim_finds_it_released(store_url: str) -> None:
    async with _asking(store_url) as (repetitions, _):
        held, _ = await repetitions.claim("ticket", "d")
        repetitions.release(held)

        assert (await repetitions.claim("ticket", "d"))[1] == Claimed(taken_over=True)
