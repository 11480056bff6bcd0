"""The sweep removes from the depot what nobody refers to any more, and never anything else (G13, Q9)."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.amqp import broker as brokers
from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Admission, Envelope
from gateway.contract.ids import TicketId
from gateway.contract.journal import Event, EventName
from gateway.contract.outcomes import Stamp, Standing, TicketState
from gateway.contract.references import digest_of, folder_of
from gateway.contract.topology import Lane, Topology
from gateway.depot import Depot, open_depot
from gateway.embedded import EmbeddedBroker
from gateway.station import arrival as arrivals
from gateway.station import decisions, holding, ledger, replays, reviewing, standings
from gateway.station.decided import Decision, Done
from gateway.station.depot_sweep import DepotSweep
from gateway.station.sender import Sender
from gateway.station.standings import Report
from gateway.station.store import Store
from gateway.station.tombstones import Tombstones
from gateway.station.unclaimed import LOOKS_APART, Patience

pytestmark = pytest.mark.broker

DAY = 86_400.0
PATIENCE = Patience(retention=30 * DAY, grace=DAY)
CONTENT = b"x" * 1000


@dataclass
class Yard:
    """A depot, a store and queues, at a time that the test decides."""

    store: Store
    depot: Depot
    sender: Sender
    topology: Topology
    sweeper: DepotSweep
    clock: list[float] = field(default_factory=lambda: [0.0])

    def leave(self, ticket: str, body: bytes = b"body") -> str:
        """Store what a door would, and return its folder."""
        folder = folder_of(TicketId(ticket), body)
        self.depot.put(folder, {digest_of(CONTENT): CONTENT})
        return folder

    def left(self) -> set[str]:
        return {folder.name for folder in self.depot.folders()}

    async def sweep(self, *, days: float) -> None:
        """Sweep twice, as long apart as it takes to believe what was seen."""
        written = max(folder.newest for folder in self.depot.folders())
        for at in (written + days * DAY, written + days * DAY + LOOKS_APART):
            self.clock[0] = at
            await self.sweeper.sweep()

    async def report(self, ticket: str, state: TicketState, *, attempt: int = 1) -> None:
        written = max(folder.newest for folder in self.depot.folders())
        stamp = Stamp(generation=0, attempt=attempt, interruptions=0)
        told = Report(ticket=ticket, kind="k", standing=Standing(stamp=stamp, state=state), attempts=1, at=written + 1)
        async with self.store.writing() as transaction:
            await standings.merge(transaction, [told])

    def item(self, ticket: str, folder: str) -> Envelope:
        admission = Admission(
            bytes=4, charset="utf-8", tokens=1, exact=True, attachments=1, client="c", admitted_at=1.0, stored=folder
        )
        return Envelope(ticket=TicketId(ticket), kind="k", body=b"body", content_type="text/plain", admission=admission)

    async def hold(self, ticket: str, folder: str) -> None:
        wire = envelopes.encode(envelopes.supersede(self.item(ticket, folder), reason="rejected"))
        async with self.store.writing() as transaction:
            await holding.take_in(transaction, arrivals.read(wire), channels=[], now=1.0)


@pytest.fixture
async def yard(store_url: str, broker: EmbeddedBroker, prefix: str, tmp_path: Path) -> AsyncIterator[Yard]:
    topology, sender, clock = Topology(prefix=prefix), Sender([broker.url]), [0.0]
    connection = await brokers.connect([broker.url], name="test", deadline=20.0)
    await brokers.declare(connection, topology)
    await brokers.close(connection)
    store, depot = await Store.open(store_url), open_depot(str(tmp_path / "depot"))
    sweeper = DepotSweep(
        store=store,
        depot=depot,
        urls=[broker.url],
        topology=topology,
        patience=PATIENCE,
        clock=lambda: clock[0],
    )
    yield Yard(store=store, depot=depot, sender=sender, topology=topology, sweeper=sweeper, clock=clock)
    await sender.close()
    await store.close()


async def test_what_no_ticket_came_to_refer_to_goes_after_the_grace(yard: Yard) -> None:
    yard.leave("refused")
    await yard.sweep(days=0.9)
    assert len(yard.left()) == 1
    await yard.sweep(days=1)
    assert yard.left() == set()


@pytest.mark.parametrize("waits_in", ["work", "suspects", "quarantine", "journal"])
async def test_nothing_unheard_of_goes_while_a_queue_may_hold_its_ticket_or_what_is_told_of_it(
    yard: Yard, waits_in: str
) -> None:
    kept = yard.leave("9417")
    route = {
        "work": yard.topology.to_lane(Lane.WORK),
        "suspects": yard.topology.to_lane(Lane.SUSPECTS),
        "quarantine": yard.topology.to_quarantine("k"),
        "journal": yard.topology.to_journal(),
    }[waits_in]
    await yard.sender.send(route, envelopes.encode(yard.item("9417", kept)), mandatory=True)
    await yard.sweep(days=400)
    assert yard.left() == {kept}


async def test_nothing_goes_before_the_station_has_stored_what_it_was_sent(yard: Yard) -> None:
    yard.leave("over")
    await yard.report("over", TicketState.DONE)
    await yard.sender.send(yard.topology.to_journal(), envelopes.encode(yard.item("x", "")), mandatory=True)
    await yard.sweep(days=400)
    assert len(yard.left()) == 1


@pytest.mark.parametrize("state", [state for state in TicketState if state not in ("done", "discarded")])
async def test_what_is_unfinished_stays_for_ever(yard: Yard, state: TicketState) -> None:
    kept = yard.leave("9417")
    await yard.report("9417", state)
    await yard.sweep(days=4000)
    assert yard.left() == {kept}


async def test_what_is_done_goes_when_its_retention_is_over(yard: Yard) -> None:
    yard.leave("9417")
    await yard.report("9417", TicketState.DONE)
    await yard.sweep(days=29.9)
    assert len(yard.left()) == 1
    await yard.sweep(days=30.1)
    assert yard.left() == set()


async def test_nothing_of_a_ticket_on_hold_goes_until_it_is_released(yard: Yard) -> None:
    kept = yard.leave("9417")
    await yard.report("9417", TicketState.DONE)
    await reviewing.hold(yard.store, "9417", Decision(by="ann", reason="a complaint"))
    await yard.sweep(days=400)
    assert yard.left() == {kept}
    await reviewing.release(yard.store, "9417", Decision(by="ann", reason="answered"))
    await yard.sweep(days=400)
    assert yard.left() == set()


async def test_an_open_start_speaks_for_what_nobody_has_told_of_yet(yard: Yard) -> None:
    kept = yard.leave("9417")
    async with yard.store.writing() as transaction:
        await transaction.exec_driver_sql("CREATE TABLE starts (ticket TEXT, closed BOOLEAN)")
        await transaction.exec_driver_sql("INSERT INTO starts VALUES ('9417', FALSE)")
    await yard.sweep(days=400)
    assert yard.left() == {kept}


async def test_a_held_item_keeps_what_its_message_names_whatever_name_it_is_listed_under(yard: Yard) -> None:
    kept = yard.leave("9417", b"the second ticket under this id")
    await yard.report("9417", TicketState.DONE)
    await yard.hold("9417~d5e8d5e8", kept)
    await yard.sweep(days=4000)
    assert yard.left() == {kept}


async def test_what_was_replayed_is_kept_until_that_has_ended(yard: Yard) -> None:
    kept = yard.leave("9417")
    await yard.hold("9417", kept)
    outcome = await replays.replay(
        yard.store, yard.sender, yard.topology, "9417", Decision(by="ann", reason="repaired")
    )
    assert isinstance(outcome, Done)
    await yard.sweep(days=4000)
    assert yard.left() == {kept}


async def test_what_a_decided_item_refers_to_stays_as_long_as_its_body(yard: Yard) -> None:
    kept = yard.leave("9417")
    await yard.hold("9417", kept)
    await decisions.discard(yard.store, "9417", Decision(by="ann", reason="spam"))
    await yard.sweep(days=4000)
    assert yard.left() == {kept}
    await Tombstones(store=yard.store, keep=1.0, clock=lambda: time.time() + DAY).sweep()
    await yard.sweep(days=30.1)
    assert yard.left() == set()


async def test_a_journal_that_comes_late_comes_in_time(yard: Yard) -> None:
    kept = yard.leave("9417")
    await yard.sweep(days=0.99)
    started = Event(event=EventName.STARTED, at=1.0, ticket="9417", kind="k", node="n")
    async with yard.store.writing() as transaction:
        await ledger.post(transaction, [started])
    await yard.sweep(days=400)
    assert yard.left() == {kept}


async def test_what_a_door_writes_again_in_the_same_moment_stays(yard: Yard) -> None:
    folder = yard.leave("9417")
    (before,) = yard.depot.folders()
    await asyncio.to_thread(yard.leave, "9417")
    assert not yard.depot.remove(folder, before=before.newest)
    assert yard.left() == {folder}
