"""What replays have left in doubt, on both stores: which items that is, and sent again as an operation.

What a broker and a fleet make of it: tests/integration/station/test_bulk.py, tests/faults/test_replaying.py.
"""

import time
from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa

from gateway.contract.journal import Event, EventName
from gateway.contract.outcomes import Stamp
from gateway.contract.topology import Lane
from gateway.station import candidates, decisions, dossier, export, ledger, operations, progress, replays, reviewing
from gateway.station.decided import Decision
from gateway.station.doubts import SETTLES
from gateway.station.export import AuditFilter
from gateway.station.holding import ItemState
from gateway.station.operations import Kind, Operation, Request, State
from gateway.station.progress import Outcome
from gateway.station.replays import Begun
from gateway.station.selection import WAITING, Filter
from gateway.station.store import Store
from gateway.station.tables.operations import replays as sent
from tests.unit.station.executing import executing, until
from tests.unit.station.selected import hold, leave_in_doubt, newest

ANA, BEN = Decision(by="ana", reason="fixed"), Decision(by="ben", reason="the station was killed")


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    yield opened
    await opened.close()


async def _doubtful(store: Store, *tickets: str) -> list[Begun]:
    for position, ticket in enumerate(tickets):
        await hold(store, ticket, at=float(position))
    return [await leave_in_doubt(store, ticket, ago=SETTLES) for ticket in tickets]


async def _conclude(store: Store, begun: Begun) -> None:
    async with store.writing() as transaction:
        await replays.conclude(transaction, begun.row, time.time())


async def _draft(store: Store, chosen: Filter | None = None) -> Operation:
    wanted = candidates.meant(Kind.RESUME, chosen or Filter())
    request = Request(act=Kind.RESUME, by="ben", chosen=wanted.document(), lane=Lane.SUSPECTS, pace=1000.0)
    made = await operations.draft(store, request, await candidates.find(store, Kind.RESUME, wanted))
    assert isinstance(made, tuple)
    return made[0]


async def _found(store: Store, *, unconfirmed: bool) -> list[str]:
    chosen = Filter(states=WAITING, unconfirmed=unconfirmed)
    return sorted(item.ticket for item in await dossier.find_chosen(store, chosen))


async def test_unconfirmed_is_what_was_sent_and_nobody_hears_of_any_more(store: Store) -> None:
    for ticket in ("held", "sending", "later", "flagged", "unrecorded", "concluded"):
        await hold(store, ticket)
    for ticket in ("sending", "flagged"):
        await leave_in_doubt(store, ticket, ago=1.0)
    await leave_in_doubt(store, "later", ago=-2 * SETTLES)  # the clock was put back
    async with store.writing() as transaction:
        await transaction.execute(sa.update(sent).filter_by(ticket="flagged").values(in_doubt=1))
    await _doubtful(store, "killed")
    await leave_in_doubt(store, "unrecorded", ago=1.0)
    async with store.writing() as transaction:  # as before there was a record of replays
        await transaction.execute(sa.delete(sent).filter_by(ticket="unrecorded"))
    await _conclude(store, await leave_in_doubt(store, "concluded", ago=SETTLES))
    assert await _found(store, unconfirmed=True) == ["flagged", "killed", "later", "unrecorded"]
    assert await _found(store, unconfirmed=False) == ["held", "sending"]


async def test_a_draft_to_resume_means_what_is_in_doubt_and_says_why_not_of_what_was_named(store: Store) -> None:
    _, _, concluded = await _doubtful(store, "killed", "on-hold", "concluded")
    for ticket in ("held", "sending", "gone"):
        await hold(store, ticket)
    await leave_in_doubt(store, "sending", ago=1.0)
    await decisions.discard(store, "gone", BEN)
    everything = await candidates.find(store, Kind.RESUME, candidates.meant(Kind.RESUME, Filter()))
    assert [one.ticket for one in everything] == ["killed", "on-hold", "concluded"]
    await reviewing.hold(store, "on-hold", BEN)
    await _conclude(store, concluded)
    named = Filter(tickets=("killed", "on-hold", "concluded", "held", "sending", "gone", "never"))
    one = await _draft(store, named)
    why = {line.ticket: line.why or "" for line in await progress.lines(store, one.id)}
    assert why["killed"] == ""
    assert "it is on hold since" in why["on-hold"]
    assert "was already replayed by ana" in why["concluded"]
    assert "is held and nobody has begun a replay" in why["held"]
    assert "wait 15 s for the confirm" in why["sending"]
    assert "already discarded by ben" in why["gone"]
    assert why["never"] == "it was never in quarantine here"
    assert (one.total, one.lane, one.canary) == (7, None, 0), "it goes to the lane that its replay had"


async def test_a_resume_that_the_broker_does_not_take_leaves_everything_in_doubt_as_it_was(store: Store) -> None:
    await _doubtful(store, "a", "b")
    one = await _draft(store)
    await operations.start(store, one.id, BEN, expect=2)
    async with executing(store):
        await until(store, one.id, State.RUNNING, note="paused, the broker takes nothing: no connection")
    assert await _found(store, unconfirmed=True) == ["a", "b"]
    assert (await progress.count(store, one.id))[Outcome.WAITING] == 2


async def test_what_a_report_has_proven_is_not_sent_again_and_who_resumed_it_and_why_is_on_record(store: Store) -> None:
    await _doubtful(store, "arrived")
    started = Event(
        event=EventName.STARTED,
        at=time.time(),
        ticket="arrived",
        kind="k",
        node="n",
        stamp=Stamp(generation=1, attempt=1, interruptions=0),
    )
    async with store.writing() as transaction:
        await ledger.post(transaction, [started])
    one = await _draft(store)
    await operations.start(store, one.id, BEN)
    async with executing(store):  # whose broker takes nothing
        await until(store, one.id, State.ENDED)
    assert (await newest(store, "arrived")).state is ItemState.REPLAYED
    assert (await progress.count(store, one.id))[Outcome.PENDING] == 1
    acts = [act async for act in export.acts(store, AuditFilter(operation=one.id))]
    told = [(act["act"], act["ticket"], act["actor"], act["reason"]) for act in acts]
    assert told == [
        ("operation started", None, "ben", "the station was killed"),
        ("replay resumed", "arrived", "ben", "the station was killed"),
    ]


async def test_two_operations_that_resume_the_same_send_it_once(store: Store) -> None:
    await _doubtful(store, "t")
    first, second = [await _draft(store) for _ in range(2)]
    async with store.writing() as transaction:  # the first one's turn, in whose middle its process stands still
        taken = await replays.resume_in(transaction, "t", BEN, generation=0, operation=first.id)
    assert isinstance(taken, Begun)
    await operations.start(store, second.id, BEN)
    async with executing(store):
        await until(store, second.id, State.ENDED)
    (line,) = await progress.lines(store, second.id)
    assert (line.outcome, "wait 15 s for the confirm" in (line.why or "")) == (Outcome.SKIPPED, True)


async def test_a_resume_can_have_a_few_go_first_and_is_the_same_request_only_with_the_same_canary(store: Store) -> None:
    request = Request(act=Kind.RESUME, by="ben", chosen={}, token="press", canary=2)
    made = await operations.draft(store, request, [])
    assert isinstance(made, tuple)
    assert made[0].canary == 2
    again = await operations.draft(store, request, [])
    assert isinstance(again, tuple)
    assert again[1] is False
