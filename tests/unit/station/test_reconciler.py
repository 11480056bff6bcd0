"""The reconciler asks the store for what does not fit, and owes one alert for each kind and day."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import sqlalchemy as sa

from consumer import store as of_nodes
from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Envelope
from gateway.contract.history import History, RunRecord
from gateway.contract.ids import TicketId
from gateway.contract.journal import Event, EventName
from gateway.contract.outcomes import Outcome, Stamp
from gateway.station import arrival as arrivals
from gateway.station import figures, holding, ledger
from gateway.station.agreement import Depths, Finding, Mismatch
from gateway.station.holding import ItemState
from gateway.station.reconciler import SHOWN, Reconciler
from gateway.station.store import Store
from gateway.station.tables.alerts import notices
from gateway.station.tables.items import items
from gateway.station.vitals import Vitals
from tests.support.waiting import soon

NOW = 1_800_000_000.0
OLD = NOW - 1000.0
PATIENCE = 900.0
EMPTY = Depths(quarantine=0, journal=0, on_their_way=0)


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    yield opened
    await opened.close()


async def _tell(store: Store, *events: Event) -> None:
    async with store.writing() as transaction:
        await ledger.post(transaction, events)


def _said(name: EventName, ticket: str, *, at: float = OLD, generation: int = 0, **data: Any) -> Event:
    stamp = Stamp(generation=generation, attempt=1, interruptions=0)
    return Event(event=name, at=at, ticket=ticket, kind="k", node="n", stamp=stamp, data=data)


async def _hold(store: Store, ticket: str, *, at: float = OLD, runs: int = 0) -> None:
    history = History(
        tuple(
            RunRecord(attempt=1, outcome=Outcome.FAILED, node="n", worker=1, started=1.0, seconds=1.0, code="E")
            for _ in range(runs)
        )
    )
    item = Envelope(
        ticket=TicketId(ticket), kind="k", body=b"", content_type="text/plain", reason="rejected", history=history
    )
    async with store.writing() as transaction:
        await holding.take_in(transaction, arrivals.read(envelopes.encode(item)), channels=[], now=at)


async def _decided(store: Store, ticket: str, state: ItemState, at: float = OLD) -> None:
    async with store.writing() as transaction:
        changes = {"state": state.value, "decided_at": at, "decided_by": "ana"}
        await transaction.execute(sa.update(items).filter_by(ticket=ticket).values(**changes))


def _reconciler(store: Store, depths: Depths | None = EMPTY, *, now: float = NOW) -> Reconciler:
    async def ask() -> Depths | None:
        return depths

    return Reconciler(
        store=store,
        ask=ask,
        channels=["log", "mail"],
        vitals=Vitals(),
        every=1.0,
        patience=PATIENCE,
        clock=lambda: now,
    )


async def _found(store: Store, depths: Depths | None = EMPTY) -> dict[Mismatch, Finding]:
    return {finding.mismatch: finding for finding in await _reconciler(store, depths).look()}


async def test_a_house_in_order_has_no_mismatch(store: Store) -> None:
    await _hold(store, "held", runs=1)
    ended = _said(EventName.FINISHED, "held", outcome="failed", verdict="quarantine")
    await _tell(store, ended, _said(EventName.ACCEPTED, "new"), _said(EventName.STARTED, "running", at=NOW))
    await _hold(store, "replayed")
    await _decided(store, "replayed", ItemState.REPLAYED)
    await _tell(store, _said(EventName.FINISHED, "replayed", generation=1, outcome="succeeded", verdict="ack"))
    assert await _found(store) == {}


async def test_each_thing_that_does_not_fit_is_found_once_it_has_lasted(store: Store) -> None:
    await _tell(store, _said(EventName.QUARANTINED, "unkept", reason="rejected"))
    await _hold(store, "untold", runs=1)
    for ticket, state in (("unseen", ItemState.REPLAYED), ("unconfirmed", ItemState.REPLAYING)):
        await _hold(store, ticket)
        await _decided(store, ticket, state)
    await _tell(store, _said(EventName.ACCEPTED, "unseen", generation=1))
    found = await _found(store)
    assert {mismatch: list(finding.tickets) for mismatch, finding in found.items()} == {
        Mismatch.MISSING_ITEM: ["unkept"],
        Mismatch.MISSING_JOURNAL: ["untold"],
        Mismatch.MISSING_REPLAY: ["unseen"],
        Mismatch.UNCONFIRMED_REPLAY: ["unconfirmed"],
    }
    assert await _reconciler(store, now=OLD + PATIENCE - 1).look() == []
    assert list(await _found(store, None)) == [Mismatch.UNCONFIRMED_REPLAY]
    assert Mismatch.MISSING_REPLAY not in await _found(store, Depths(quarantine=0, journal=0, on_their_way=1))


async def test_a_run_on_a_node_that_beats_no_more_is_found_and_one_that_beats_is_none(
    store: Store, store_url: str
) -> None:
    engine = of_nodes.engine_of(store_url)
    async with engine.begin() as connection:
        await of_nodes.lay_out(connection)
        start = {"generation": 0, "attempt": 1, "interruptions": 0, "started_at": OLD, "closed": False, "digest": "d"}
        for ticket, holder in (("dead", "gone"), ("alive", "beating"), ("vanished", "never seen"), ("over", "gone")):
            row = {"ticket": ticket, "holder": holder, **start, "closed": ticket == "over"}
            await connection.execute(sa.insert(of_nodes.starts).values(**row))
        for node, beat in (("gone", OLD), ("beating", NOW)):
            await connection.execute(sa.insert(of_nodes.nodes).values(node=node, lane="work", beat_at=beat, every=5.0))
    await engine.dispose()
    await _tell(store, *(_said(EventName.STARTED, ticket) for ticket in ("dead", "alive", "vanished", "over")))
    [finding] = await _reconciler(store).look()
    assert (finding.mismatch, sorted(finding.tickets)) == (Mismatch.DEAD_RUN, ["dead", "vanished"])


async def test_a_mismatch_is_told_once_a_day_through_each_channel_and_is_a_figure(store: Store) -> None:
    await _tell(store, *(_said(EventName.QUARANTINED, f"t{number}", reason="r") for number in range(SHOWN + 5)))
    found: list[Finding] = []
    for now in (NOW, NOW + 300, NOW + 86_400):
        found = await _reconciler(store, now=now).look()
    async with store.reading() as transaction:
        rows = (await transaction.execute(sa.select(notices).order_by(notices.c.window, notices.c.channel))).all()
    assert [(row.event, row.channel) for row in rows] == [("reconcile.mismatch", name) for name in ("log", "mail")] * 2
    assert "15 tickets: the journal says quarantined" in rows[0].text
    assert len(found[0].tickets) == SHOWN
    exposed = figures.render(await figures.count(store), found).decode()
    assert 'lazaretto_reconcile_mismatch{what="missing_item"} 15.0' in exposed
    assert 'lazaretto_reconcile_mismatch{what="dead_run"} 0.0' in exposed


async def test_a_store_that_cannot_be_asked_ends_nothing(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    reconciler, stop = _reconciler(store), asyncio.Event()
    async with store.writing() as transaction:
        await transaction.execute(sa.text("ALTER TABLE items RENAME TO gone"))
    running = asyncio.create_task(reconciler.run(stop))
    await soon(lambda: "reconcile.waits" in caplog.text)
    assert not running.done()
    stop.set()
    await running
