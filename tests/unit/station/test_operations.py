"""Operations on both stores: frozen, counted first, started once, stopped, taken over; paused while no broker answers.

What a broker takes is shown by tests/integration/station/test_bulk.py.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from gateway.contract.topology import Lane
from gateway.station import candidates, decisions, operations, progress
from gateway.station.candidates import TooMany
from gateway.station.decided import Decision, DiscardCode
from gateway.station.executor import DRAFT_LIFETIME
from gateway.station.holding import ItemState
from gateway.station.operations import Candidate, Kind, NotNow, Operation, Request, State, TokenTaken
from gateway.station.progress import Outcome
from gateway.station.selection import Filter
from gateway.station.store import Store
from gateway.station.tables.operations import operations as table
from tests.support.waiting import soon
from tests.unit.station.executing import executing, until
from tests.unit.station.selected import hold, newest

ANA, BEN = Decision(by="ana", reason="fixed"), Decision(by="ben", reason="enough")


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    yield opened
    await opened.close()


async def _draft(store: Store, act: Kind = Kind.DISCARD, chosen: Filter | None = None, **named: Any) -> Operation:
    wanted = chosen or Filter()
    request = Request(act=act, by="ana", chosen=wanted.document(), **{"pace": 1000.0, **named})
    made = await operations.draft(store, request, await candidates.find(store, act, wanted, limit=1))
    assert not isinstance(made, TokenTaken)
    return made[0]


async def _counts(store: Store, name: str) -> dict[Outcome, int]:
    return {outcome: number for outcome, number in (await progress.count(store, name)).items() if number}


async def test_a_draft_counts_says_why_not_and_changes_nothing(store: Store) -> None:
    for ticket in ("held", "gone", "raw"):
        await hold(store, ticket)
    await decisions.discard(store, "gone", BEN)
    chosen = Filter(tickets=("held", "gone", "never", "raw"))
    found = await candidates.find(store, Kind.REPLAY, chosen, check=None)
    why = {one.ticket: one.why for one in found}
    assert why["held"] is why["raw"] is None
    assert "already discarded by ben" in (why["gone"] or "")
    assert why["never"] == "it was never in quarantine here"

    one = await _draft(store, chosen=chosen)
    assert (one.state, one.total, one.created_by) == (State.DRAFT, 4, "ana")
    assert await _counts(store, one.id) == {Outcome.WAITING: 2, Outcome.SKIPPED: 2}
    async with executing(store):
        await asyncio.sleep(0)
    assert (await newest(store, "held")).state is ItemState.HELD


async def test_what_never_passed_the_door_is_examined_before_it_is_replayed(store: Store) -> None:
    await hold(store, "admitted")
    await hold(store, "past", client=None)
    asked: list[tuple[str, bytes]] = []

    async def check(envelope: Any) -> str | None:
        asked.append((envelope.ticket, envelope.body))
        return "its body fails"

    found = await candidates.find(store, Kind.REPLAY, Filter(), check=check)
    assert asked == [("past", b"hello")]
    assert {one.ticket: one.why for one in found} == {"admitted": None, "past": "its body fails"}
    assert {one.why for one in await candidates.find(store, Kind.DISCARD, Filter(), check=check)} == {None}


async def test_a_selection_is_frozen_whatever_arrives_afterwards(store: Store) -> None:
    await hold(store, "t1")
    one = await _draft(store, code=DiscardCode.OUT_OF_DATE)
    await hold(store, "t2")
    await operations.start(store, one.id, ANA)
    async with executing(store):
        await until(store, one.id, State.ENDED)
    first, second = await newest(store, "t1"), await newest(store, "t2")
    assert (first.state, first.decision_code, first.decided_by) == (ItemState.DISCARDED, "out_of_date", "ana")
    assert second.state is ItemState.HELD
    assert await _counts(store, one.id) == {Outcome.DISCARDED: 1}


async def test_one_token_is_one_operation_and_for_another_request_it_is_refused(store: Store) -> None:
    await hold(store, "t")
    request = Request(act=Kind.DISCARD, by="ana", chosen={}, token="press")
    twice = await asyncio.gather(
        *(operations.draft(store, request, [Candidate(ticket="t", generation=0)]) for _ in "ab")
    )
    others = [
        replace(request, act=Kind.REPLAY),
        replace(request, chosen={"kind": "k"}),
        replace(request, code=DiscardCode.HARMFUL),
        replace(request, pace=1.0),
    ]
    names = {made[0].id for made in twice if not isinstance(made, TokenTaken)}
    assert len(names) == 1
    assert sorted(made[1] for made in twice if not isinstance(made, TokenTaken)) == [False, True]
    for other in others:
        assert await operations.draft(store, other, []) == TokenTaken(operation=min(names))
    replay = Request(act=Kind.REPLAY, by="ana", chosen={}, token="again")
    assert isinstance(await operations.draft(store, replay, []), tuple)
    for other in (replace(replay, lane=Lane.SUSPECTS), replace(replay, canary=1)):
        assert isinstance(await operations.draft(store, other, []), TokenTaken)


async def test_an_operation_is_started_once_and_only_for_the_count_that_was_seen(store: Store) -> None:
    await hold(store, "t")
    one = await _draft(store)
    assert await operations.start(store, one.id, ANA, expect=2) == NotNow(
        sentence="2 expected, 1 found: nothing was changed"
    )
    first, second = [await operations.start(store, one.id, decision, expect=1) for decision in (ANA, BEN)]
    assert isinstance(first, Operation)
    assert first == second
    assert (first.state, first.started_by, first.reason) == (State.RUNNING, "ana", "fixed")
    assert await operations.start(store, "nothing", ANA) is None
    assert isinstance(await operations.proceed(store, (await _draft(store)).id, ANA), NotNow)


async def test_what_was_decided_meanwhile_is_skipped_with_who_decided(store: Store) -> None:
    for ticket in ("a", "b"):
        await hold(store, ticket)
    one = await _draft(store)
    await decisions.discard(store, "b", BEN)
    await operations.start(store, one.id, ANA)
    async with executing(store):
        await until(store, one.id, State.ENDED)
    lines = await progress.lines(store, one.id)
    assert [(line.ticket, line.outcome) for line in lines] == [("a", Outcome.DISCARDED), ("b", Outcome.SKIPPED)]
    assert "already discarded by ben" in (lines[1].why or "")
    assert [line.ticket for line in await progress.lines(store, one.id, outcomes=[Outcome.SKIPPED])] == ["b"]


async def test_a_broker_that_is_away_pauses_an_operation_says_so_and_leaves_the_item_held(store: Store) -> None:
    for ticket in ("a", "b"):
        await hold(store, ticket)
    one = await _draft(store, Kind.REPLAY)
    await operations.start(store, one.id, ANA)
    async with executing(store):
        await until(store, one.id, State.RUNNING, note="paused, the broker takes nothing: no connection")
    assert [(await newest(store, ticket)).state for ticket in ("a", "b")] == [ItemState.HELD] * 2
    assert await _counts(store, one.id) == {Outcome.WAITING: 2}


async def test_a_stopped_operation_gives_no_further_item_its_turn_and_goes_on_when_it_is_continued(
    store: Store,
) -> None:
    for number in range(6):
        await hold(store, f"t{number}", at=float(number))
    one = await _draft(store, pace=1.0)
    await operations.start(store, one.id, ANA)
    async with executing(store):

        async def begun() -> bool:
            return (await progress.count(store, one.id))[Outcome.DISCARDED] > 0

        await soon(begun, within=30)
        stopped = await operations.stop(store, one.id, BEN)
        assert isinstance(stopped, Operation)
        assert (stopped.state, stopped.note) == (State.STOPPED, "stopped by ben: enough")
        at_stop = await _counts(store, one.id)
        async with store.writing() as transaction:
            await transaction.execute(sa.update(table).values(pace=1000.0))
        assert await _counts(store, one.id) == at_stop
        assert at_stop[Outcome.WAITING] > 0
        await operations.proceed(store, one.id, ANA)
        await until(store, one.id, State.ENDED)
    assert await _counts(store, one.id) == {Outcome.DISCARDED: 6}


async def test_two_stations_give_each_item_one_turn_and_one_takes_over_what_the_other_has_left(store: Store) -> None:
    for number in range(40):
        await hold(store, f"t{number:02}", at=float(number))
    one = await _draft(store)
    async with store.writing() as transaction:  # as a station that was killed leaves it
        held = {"holder": "a station that is dead", "held_until": 1.0}
        await transaction.execute(sa.update(table).values(**held))
    await operations.start(store, one.id, ANA)
    async with executing(store), executing(store):
        await until(store, one.id, State.ENDED)
    assert await _counts(store, one.id) == {Outcome.DISCARDED: 40}
    lines = await progress.lines(store, one.id)
    assert {line.why for line in lines} == {None}, "nobody found an item taken"


async def test_drafts_that_nobody_starts_are_forgotten_and_nothing_else_is(store: Store) -> None:
    await hold(store, "t")
    old, new = await _draft(store), await _draft(store)
    async with store.writing() as transaction:
        long_ago = table.c.created_at - DRAFT_LIFETIME - 1
        await transaction.execute(sa.update(table).where(table.c.id == old.id).values(created_at=long_ago))
    async with executing(store):

        async def forgotten() -> bool:
            return await operations.find(store, old.id) is None

        await soon(forgotten, within=30)
    assert [one.id for one in await operations.newest(store)] == [new.id]
    assert await progress.lines(store, old.id) == []


async def test_more_than_an_operation_may_have_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "MAX_ITEMS", 1)
    for ticket in ("a", "b"):
        await hold(store, ticket)
    with pytest.raises(TooMany, match="narrow it down"):
        await candidates.find(store, Kind.DISCARD, Filter())
