"""Decisions on both stores: compare-and-set, codes, the restore window, and an audit log that is only added to."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa

from gateway.contract.envelope import Admission
from gateway.contract.journal import Event, EventName
from gateway.contract.outcomes import Stamp
from gateway.contract.topology import Lane
from gateway.station import decisions, dossier, doubts, export, ledger, lineage, proofs, replays
from gateway.station.decided import Bar, Barred, Decision, DiscardCode, Done, Taken, Unknown
from gateway.station.export import AuditFilter
from gateway.station.holding import ItemState
from gateway.station.replays import Begun, Plan
from gateway.station.selection import Filter
from gateway.station.store import Store
from gateway.station.successor import Change
from gateway.station.tables.audit import audit
from gateway.station.tables.operations import replays as sent
from tests.unit.station.selected import hold, newest

ANA, BEN = Decision(by="ana", reason="fixed"), Decision(by="ben", reason="spam")
DAY = 86_400.0


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    yield opened
    await opened.close()


async def _begin(store: Store, ticket: str, decision: Decision, plan: Plan | None = None) -> object:
    async with store.writing() as transaction:
        return await replays.begin(transaction, ticket, decision, plan or Plan())


async def test_of_many_who_decide_at_once_one_wins_and_the_others_hear_who(store: Store) -> None:
    await hold(store, "t")
    asked = [
        *(_begin(store, "t", Decision(by=f"r{n}", reason="x")) for n in range(4)),
        *(decisions.discard(store, "t", Decision(by=f"d{n}", reason="y")) for n in range(4)),
    ]
    answers = await asyncio.gather(*asked)
    winners = [answer for answer in answers if isinstance(answer, Begun | Done)]
    item = await newest(store, "t")
    losers = [answer for answer in answers if isinstance(answer, Taken)]
    acts = [act async for act in export.acts(store, AuditFilter())]

    assert (len(winners), len(losers)) == (1, 7)
    assert {loser.by for loser in losers} == {item.decided_by}
    assert all(str(item.decided_by) in loser.sentence for loser in losers)
    assert [(act["actor"], act["ticket"]) for act in acts] == [(item.decided_by, "t")]


async def test_a_decision_about_a_generation_that_is_no_longer_the_newest_is_told_what_became_of_it(
    store: Store,
) -> None:
    await hold(store, "t")
    begun = await _begin(store, "t", ANA, Plan(generation=0))
    await hold(store, "t", generation=1)
    late = await decisions.discard(store, "t", BEN)
    assert isinstance(begun, Begun)
    assert late == Done(ticket="t", generation=1)
    async with store.writing() as transaction:
        seen = await decisions.discard_in(transaction, "t", BEN, DiscardCode.OTHER, generation=0)
    assert isinstance(seen, Taken)
    assert (seen.by, seen.reason) == ("ana", "fixed")
    assert isinstance(await _begin(store, "nobody", ANA), Unknown)


async def test_what_was_discarded_is_held_again_within_its_window_and_discarded_again(store: Store) -> None:
    await hold(store, "t")
    await decisions.discard(store, "t", BEN, DiscardCode.DUPLICATE)
    discarded, status = await newest(store, "t"), await store.ticket_status("t")
    assert status is not None
    assert (discarded.state, discarded.decision_code, status.state) == ("discarded", "duplicate", "discarded")

    assert isinstance(await decisions.restore(store, "t", ANA, window=DAY), Done)
    held, status = await newest(store, "t"), await store.ticket_status("t")
    assert status is not None
    assert (held.state, held.decided_by, held.decision_code) == (ItemState.HELD, None, None)
    assert (status.state, status.detail) == ("quarantined", "rejected")
    assert isinstance(await decisions.restore(store, "t", ANA, window=DAY), Taken)

    await decisions.discard(store, "t", BEN)
    status = await store.ticket_status("t")
    assert status is not None
    assert status.state == "discarded"
    late = await decisions.restore(store, "t", ANA, window=0.0)
    assert isinstance(late, Barred)
    assert late.bar is Bar.WINDOW_OVER
    acts = [(act["act"], act["code"]) async for act in export.acts(store, AuditFilter(ticket="t"))]
    assert acts == [("discard", "duplicate"), ("restore", None), ("discard", "other")]


async def test_a_report_that_is_still_on_its_way_changes_nothing_about_what_was_restored(store: Store) -> None:
    await hold(store, "t")
    await decisions.discard(store, "t", BEN)
    await decisions.restore(store, "t", ANA, window=DAY)
    late = Event(
        event=EventName.STARTED,
        at=1.0,
        ticket="t",
        kind="k",
        node="n",
        stamp=Stamp(generation=0, attempt=3, interruptions=9),
    )
    async with store.writing() as transaction:
        await ledger.post(transaction, [late])
    status = await store.ticket_status("t")
    assert status is not None
    assert status.state == "quarantined"


async def test_an_item_is_replayed_no_more_often_than_the_limit_says(store: Store) -> None:
    for generation in range(2):
        await hold(store, "t", generation=generation)
        assert isinstance(await _begin(store, "t", ANA, Plan(limit=2)), Begun)
    await hold(store, "t", generation=2)
    begun = await _begin(store, "t", ANA, Plan(limit=2))
    assert isinstance(begun, Barred)
    assert begun.bar is Bar.REPLAY_LIMIT
    assert "LAZARETTO_REPLAY_LIMIT is 2" in begun.why
    assert (await newest(store, "t")).state is ItemState.HELD
    assert isinstance(await _begin(store, "t", ANA), Begun), "no limit"


async def test_a_report_of_the_next_generation_settles_a_replay_in_doubt_and_one_of_its_own_does_not(
    store: Store,
) -> None:
    await hold(store, "t")
    await _begin(store, "t", ANA)
    for generation, state in ((0, ItemState.REPLAYING), (1, ItemState.REPLAYED)):
        async with store.writing() as transaction:
            await proofs.settle(transaction, [("t", generation), ("other", 7)])
        assert (await newest(store, "t")).state is state
    (descent,) = await lineage.find(store, "t")
    assert (descent.replayed_from, descent.generation, descent.lane, descent.edited) == (0, 1, "work", False)
    assert descent.confirmed_at is not None
    found = await dossier.find(store, "t")
    assert found is not None
    assert [alert.event for alert in found.alerts] == ["item.quarantined", "item.resolved"]


async def test_a_replay_that_may_still_be_confirmed_is_not_resumed_yet(store: Store) -> None:
    await hold(store, "t")
    change = Change(
        body=b"other",
        content_type="text/plain; charset=utf-8",
        difference="-hello\n+other\n",
        admission=Admission(
            bytes=5, charset="utf-8", tokens=1, exact=True, attachments=0, client="acme", admitted_at=1.0, marked=("x",)
        ),
    )
    begun = await _begin(store, "t", ANA, Plan(lane=Lane.SUSPECTS, change=change))
    async with store.writing() as transaction:
        early = await replays.resume_in(transaction, "t", BEN)
    assert isinstance(early, Barred)
    assert early.bar is Bar.STILL_SENDING
    async with store.writing() as transaction:
        await transaction.execute(sa.update(sent).values(begun_at=sent.c.begun_at - doubts.SETTLES))
        resumed = await replays.resume_in(transaction, "t", BEN)
    assert isinstance(begun, Begun)
    assert isinstance(resumed, Begun)
    assert begun.wire is not None
    assert resumed.wire is not None
    assert resumed.lane is Lane.SUSPECTS
    assert (resumed.wire.body, resumed.wire.headers) == (begun.wire.body, begun.wire.headers)
    assert resumed.wire.headers["lz-suspect"] == "replayed"
    assert (await newest(store, "t")).size == len(b"hello"), "the item keeps its own body"


@pytest.mark.parametrize(
    "statement", [sa.update(audit).values(actor="eve"), sa.delete(audit)], ids=["update", "delete"]
)
async def test_the_audit_log_takes_nothing_but_new_rows(store: Store, statement: sa.Executable) -> None:
    await hold(store, "t")
    await decisions.discard(store, "t", BEN)

    async def tamper() -> None:
        async with store.writing() as transaction:
            await transaction.execute(statement)

    with pytest.raises(sa.exc.DBAPIError, match="only added to"):
        await tamper()
    assert [act["actor"] async for act in export.acts(store, AuditFilter(actor="ben"))] == ["ben"]


async def test_an_export_has_every_act_and_every_item_once(store: Store) -> None:
    for number in range(7):
        await hold(store, f"t{number}", at=float(number))
    for number in range(5):
        await decisions.discard(store, f"t{number}", ANA if number % 2 else BEN)
    numbers = [act["number"] async for act in export.acts(store, AuditFilter())]
    assert numbers == sorted(set(numbers))
    assert [act["ticket"] async for act in export.acts(store, AuditFilter(actor="ana"))] == ["t1", "t3"]
    assert [act["ticket"] async for act in export.acts(store, AuditFilter(ticket="t4", act="discard"))] == ["t4"]
    chosen = Filter(states=tuple(ItemState))
    whole = [line async for line in export.held(store, chosen, bodies=True)]
    assert [line["ticket"] for line in whole] == [f"t{number}" for number in range(7)]
    assert {line["body"] for line in whole} == {"aGVsbG8="}
    assert not any(["body" in line async for line in export.held(store, chosen)])
