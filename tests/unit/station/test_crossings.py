"""What crosses what another does at the same moment, or has done meanwhile: nothing is lost, said or sent amiss."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Envelope
from gateway.contract.ids import TicketId
from gateway.contract.topology import Topology
from gateway.contract.wire import Wire
from gateway.station import announcing, arrival, decisions, escalations, holding, operations, owed, progress, replays
from gateway.station.decided import Decision, Done, Unsent
from gateway.station.escalation_state import EscalationState
from gateway.station.escalations import ESCALATION
from gateway.station.executor import DRAFT_LIFETIME, Executor
from gateway.station.holding import ItemState
from gateway.station.keeper import Keeper, _line
from gateway.station.operations import Candidate, Kind, Operation, Request, State
from gateway.station.progress import Outcome
from gateway.station.replays import SETTLES, Begun, Plan
from gateway.station.salvage import Salvage
from gateway.station.sender import Sender
from gateway.station.spool import Spool
from gateway.station.store import Store
from gateway.station.tables.items import items, spooled
from gateway.station.tables.operations import operations as table
from gateway.station.tables.operations import replays as sent
from gateway.station.vitals import Vitals
from tests.support.waiting import soon
from tests.unit.station.hearing import Heard, sending
from tests.unit.station.items import discard, take_in
from tests.unit.station.selected import hold, newest

ANA, BEN = Decision(by="ana", reason="fixed"), Decision(by="ben", reason="again")
NOBODY = "amqp://guest:guest@127.0.0.1:1/"
DAY = 86_400.0


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    yield opened
    await opened.close()


async def _waits_for_a_lock(store: Store) -> bool:
    """Tell whether somebody does; on SQLite he would have to wait whatever he does first."""
    if store.dialect == "sqlite":
        return True
    async with store.reading() as transaction:
        return bool(await transaction.scalar(sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")))


async def _begin(store: Store, ticket: str) -> Begun:
    async with store.writing() as transaction:
        begun = await replays.begin(transaction, ticket, ANA, Plan())
    assert isinstance(begun, Begun)
    return begun


async def _began(store: Store, ticket: str, seconds: float) -> None:
    """Have its replay begun so many seconds earlier."""
    async with store.writing() as transaction:
        earlier = sa.update(sent).filter_by(ticket=ticket).values(begun_at=sent.c.begun_at - seconds)
        await transaction.execute(earlier)


async def _resume(store: Store, ticket: str) -> object:
    async with store.writing() as transaction:
        return await replays.resume_in(transaction, ticket, BEN)


async def _executing(store: Store, until: Callable[[], Awaitable[object]]) -> None:
    stop, sender = asyncio.Event(), Sender((NOBODY,))
    executor = Executor(store=store, sender=sender, topology=Topology(), replay_limit=0, lease=30.0)
    running = asyncio.create_task(executor.run(stop))
    try:
        await until()
    finally:
        stop.set()
        await running
        await sender.close()


async def _ended(store: Store, name: str) -> None:
    async def has_ended() -> bool:
        one = await operations.find(store, name)
        return one is not None and one.state is State.ENDED

    await soon(has_ended, 30)


async def _draft(store: Store) -> Operation:
    await hold(store, "t")
    request = Request(act=Kind.DISCARD, by="ana", chosen={}, pace=1000.0)
    made = await operations.draft(store, request, [Candidate(ticket="t", generation=0)])
    assert isinstance(made, tuple)
    return made[0]


async def test_an_item_that_is_restored_before_anybody_outside_heard_of_it_is_handed_over(store: Store) -> None:
    outside = Heard(ESCALATION)
    await take_in(store, [ESCALATION], "1", "2")
    await discard(store, "1")

    async def nothing_is_due() -> bool:
        return not await owed.due(store, ESCALATION, 9)

    async with sending(store, outside):
        await soon(lambda: outside.tickets == ["2"], 30)
        await soon(nothing_is_due, 30)
        assert isinstance(await decisions.restore(store, "1", BEN, window=DAY), Done)
        await soon(lambda: outside.tickets == ["2", "1"], 30)
        await soon(nothing_is_due, 30)
        for ticket in ("1", "2"):
            await discard(store, ticket)
        await decisions.restore(store, "2", BEN, window=DAY)
        await soon(nothing_is_due, 30)
    opened = [notice.fields["ticket"] for notice in outside.notices if notice.event == "item.quarantined"]
    assert opened == ["2", "1"], "once each"
    (one,) = await escalations.find(store, "2")
    assert one.state is EscalationState.SENT


async def test_what_was_needless_to_tell_is_looked_at_again_where_somebody_decides_meanwhile(store: Store) -> None:
    await take_in(store, [ESCALATION], "1")
    await discard(store, "1")
    async with store.writing() as transaction:
        await transaction.execute(sa.text("UPDATE alerts SET due_at = 0"))
    (opening,) = await owed.due(store, ESCALATION, 9)
    assert isinstance(await announcing.worded(store, opening, ESCALATION, "http://desk"), str)
    async with store.writing() as transaction:
        assert await announcing.is_needless(transaction, opening, ESCALATION)
    await decisions.restore(store, "1", BEN, window=DAY)
    async with store.writing() as transaction:
        assert not await announcing.is_needless(transaction, opening, ESCALATION)


async def test_a_sending_that_failed_late_takes_nothing_back_that_somebody_has_resumed(store: Store) -> None:
    await hold(store, "t")
    first = await _begin(store, "t")
    await _began(store, "t", SETTLES)
    second = await _resume(store, "t")
    assert isinstance(second, Begun)
    sender = Sender((NOBODY,))
    assert isinstance(await replays.publish(store, sender, Topology(), first, ANA), Unsent)
    assert (await newest(store, "t")).state is ItemState.REPLAYING
    assert not isinstance(await _resume(store, "t"), Begun), "the second one is on its way"
    async with store.writing() as transaction:
        await replays.conclude(transaction, second.row, time.time())
    assert (await newest(store, "t")).state is ItemState.REPLAYED


async def test_a_replay_that_was_begun_before_the_clock_was_put_back_can_be_resumed(store: Store) -> None:
    await hold(store, "t")
    await _begin(store, "t")
    await _began(store, "t", -3600.0)
    assert isinstance(await _resume(store, "t"), Begun)


async def test_a_lease_from_before_the_clock_was_put_back_is_not_waited_for(store: Store) -> None:
    one = await _draft(store)
    async with store.writing() as transaction:
        gone = {"holder": "a station that is dead", "held_until": time.time() + DAY}
        await transaction.execute(sa.update(table).values(**gone))
    await operations.start(store, one.id, ANA)
    await _executing(store, lambda: _ended(store, one.id))
    assert (await progress.count(store, one.id))[Outcome.DISCARDED] == 1


async def test_an_old_draft_that_is_started_while_it_is_being_forgotten_keeps_its_selection(store: Store) -> None:
    one = await _draft(store)
    async with store.writing() as transaction:
        await transaction.execute(sa.update(table).values(created_at=table.c.created_at - DRAFT_LIFETIME - 1))

    async def start_meanwhile() -> None:
        await soon(lambda: _waits_for_a_lock(store), 30)
        await starting.commit()
        await _ended(store, one.id)

    async with store.writing() as transaction:
        starting = transaction
        changes = {"state": State.RUNNING.value, "started_at": 1.0, "started_by": "ana", "reason": "fixed"}
        await transaction.execute(sa.update(table).values(**changes))
        await _executing(store, start_meanwhile)
    assert (await progress.count(store, one.id))[Outcome.DISCARDED] == 1


def _wire(ticket: str, body: bytes = b"hello", *, generation: int = 0) -> Wire:
    item = Envelope(ticket=TicketId(ticket), kind="k", body=body, content_type="text/plain", reason="rejected")
    return envelopes.encode(replace(item, generation=generation))


@pytest.mark.parametrize("body", [b"hello", b"another"], ids=["the_same", "a_namesake"])
async def test_an_item_that_another_station_stores_at_this_moment_is_stored_and_not_kept_as_a_raw_file(
    store: Store, tmp_path: Path, body: bytes
) -> None:
    topology = Topology()
    keeper = Keeper(
        urls=(), topology=topology, store=store, spool=Spool(tmp_path / "spool"), channels=["log"], vitals=Vitals()
    )
    line = _line(topology.quarantine_queue, 1, keeper._save_items, lambda _: ())  # noqa: SLF001 - no broker can time this
    async with store.writing() as transaction:
        await holding.take_in(transaction, arrival.read(_wire("t")), channels=["log"], now=1.0)
        keeping = asyncio.create_task(keeper._save(line, [_wire("t", body)]))  # noqa: SLF001
        await soon(lambda: _waits_for_a_lock(store), 30)
    await keeping
    async with store.reading() as transaction:
        bodies = (await transaction.scalars(sa.select(items.c.body))).all()
        assert await transaction.scalar(sa.select(sa.func.count()).select_from(spooled)) == 0
    assert {bytes(found) for found in bodies} == {b"hello", body}
    assert len(bodies) == len({b"hello", body})


async def test_a_next_generation_that_could_only_be_kept_as_a_raw_file_proves_its_replay_too(
    store: Store, tmp_path: Path
) -> None:
    await hold(store, "t")
    await _begin(store, "t")
    salvage = Salvage(store=store, spool=Spool(tmp_path / "spool"), channels=["log"])
    again = _wire("t", generation=1)
    await salvage.keep(again, source="q", error=ValueError("no"), is_item=True)
    async with store.reading() as transaction:
        query = sa.select(items.c.state).order_by(items.c.generation)
        assert list(await transaction.scalars(query)) == [ItemState.REPLAYED, ItemState.HELD]
