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
from gateway.station.doubts import SETTLES
from gateway.station.escalation_channels import _event
from gateway.station.escalation_state import EscalationState
from gateway.station.escalations import ESCALATION
from gateway.station.executor import DRAFT_LIFETIME, Executor
from gateway.station.holding import ItemState
from gateway.station.inlet import Inlet
from gateway.station.keeper import Keeper, _Line
from gateway.station.operations import Candidate, Kind, Operation, Request, State
from gateway.station.progress import Outcome
from gateway.station.replays import Begun, Plan
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
    assert isinstance((await announcing.worded(store, [opening], ESCALATION, "http://desk"))[0], str)
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


async def test_an_old_draft_that_is_started_while_it_is_being_forgotten_keeps_its_selection(
    store: Store, store_url: str
) -> None:
    elsewhere = await Store.open(store_url)
    one = await _draft(store)
    async with store.writing() as transaction:
        await transaction.execute(sa.update(table).values(created_at=table.c.created_at - DRAFT_LIFETIME - 1))

    async def start_meanwhile() -> None:
        await soon(lambda: _waits_for_a_lock(store), 30)
        await starting.commit()
        await _ended(store, one.id)

    async with elsewhere.writing() as transaction:
        starting = transaction
        changes = {"state": State.RUNNING.value, "started_at": 1.0, "started_by": "ana", "reason": "fixed"}
        await transaction.execute(sa.update(table).values(**changes))
        await _executing(store, start_meanwhile)
    assert (await progress.count(store, one.id))[Outcome.DISCARDED] == 1
    await elsewhere.close()


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
    inlet = Inlet(queue=topology.quarantine_queue, prefetch=1, ahead=0, ended=asyncio.Event())
    line = _Line(inlet=inlet, save=keeper._save_items, divide=lambda _: ())  # noqa: SLF001 - no broker can time this
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


async def test_people_outside_who_know_of_an_end_hear_when_the_item_is_held_again_and_of_its_next_end(
    store: Store,
) -> None:
    outside = Heard(ESCALATION)
    await take_in(store, [ESCALATION], "1")

    async def is_sent() -> bool:
        (one,) = await escalations.find(store, "1")
        return (one.state, one.reference) == (EscalationState.SENT, "CASE-1")

    def phases() -> list[str]:
        return [_event(notice)["type"].rpartition(".")[2] for notice in outside.notices]

    async with sending(store, outside):
        await soon(lambda: phases() == ["opened"], 30)
        await escalations.acknowledge(store, "1", reference="CASE-1", by="hotline")
        for round_trips in (1, 2):
            await discard(store, "1")
            await soon(lambda: phases().count("closed") == round_trips, 30)  # noqa: B023 - looked at within its round
            await decisions.restore(store, "1", BEN, window=DAY)
            await soon(lambda: phases().count("reopened") == round_trips, 30)  # noqa: B023 - the same
            await soon(is_sent, 30)
        await discard(store, "1")
        await soon(lambda: phases().count("closed") == 3, 30)
    await decisions.restore(store, "1", BEN, window=DAY)
    (one,), seen = await escalations.find(store, "1"), await store.ticket_status("1")
    assert seen is not None
    assert (one.state, seen.escalation) == (EscalationState.OWED, EscalationState.OWED), "nobody was told yet"
    assert phases() == ["opened", "closed", "reopened", "closed", "reopened", "closed"]
    assert len({_event(notice)["id"] for notice in outside.notices}) == 6


async def test_an_item_that_is_held_again_while_its_end_is_being_told_outside_is_told_to_be_open(store: Store) -> None:
    outside = Heard(ESCALATION)
    await take_in(store, [ESCALATION], "1")
    async with sending(store, outside):
        await soon(lambda: len(outside.notices) == 1, 30)
        outside.open.clear()
        await discard(store, "1")
        await soon(lambda: outside.asked == 2, 30)
        await decisions.restore(store, "1", BEN, window=DAY)
        outside.open.set()
        await soon(lambda: len(outside.notices) == 3, 30)
    assert [notice.event for notice in outside.notices] == ["item.quarantined", "item.resolved", "item.quarantined"]
    assert "open again" in outside.notices[-1].text


async def test_a_decision_while_an_earlier_one_is_being_told_is_told_too(store: Store) -> None:
    people = Heard("people")
    await take_in(store, ["people"], "1")
    async with sending(store, people):
        await soon(lambda: len(people.notices) == 1, 30)
        people.open.clear()
        await discard(store, "1")
        await soon(lambda: people.asked == 2, 30)
        await decisions.restore(store, "1", BEN, window=DAY)
        assert isinstance(await decisions.discard(store, "1", Decision(by="ben", reason="second thoughts")), Done)
        people.open.set()
        await soon(lambda: len(people.notices) == 3, 30)
    assert [notice.fields["because"] for notice in people.notices[1:]] == ["spam", "second thoughts"]
    assert not await owed.due(store, "people", 9)


async def test_what_certainly_was_not_sent_has_its_turn_again_although_its_operation_had_ended(store: Store) -> None:
    await hold(store, "t")
    request = Request(act=Kind.REPLAY, by="ana", chosen={}, pace=1000.0)
    made = await operations.draft(store, request, [Candidate(ticket="t", generation=0)])
    assert isinstance(made, tuple)
    name = made[0].id
    await operations.start(store, name, ANA)
    async with store.writing() as transaction:
        begun = await replays.begin(transaction, "t", ANA, Plan(operation=name))
        await transaction.execute(sa.text("UPDATE operation_items SET state = 'taken'"))
        await transaction.execute(sa.update(table).values(state=State.ENDED.value, ended_at=1.0))  # by another station
    assert isinstance(begun, Begun)
    assert isinstance(await replays.publish(store, Sender((NOBODY,)), Topology(), begun, ANA), Unsent)
    one = await operations.find(store, name)
    assert one is not None
    assert (one.state, one.ended_at) == (State.RUNNING, None)
    assert (await progress.count(store, name))[Outcome.WAITING] == 1
    assert (await newest(store, "t")).state is ItemState.HELD
