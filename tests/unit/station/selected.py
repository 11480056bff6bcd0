"""Items for tests of decisions, selections and operations: held in a store, without a broker."""

import time
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Admission, Envelope
from gateway.contract.ids import TicketId
from gateway.contract.journal import Event, EventName
from gateway.contract.outcomes import Stamp
from gateway.station import arrival as arrivals
from gateway.station import dossier, holding, ledger, replays
from gateway.station.decided import Decision
from gateway.station.dossier import Item
from gateway.station.doubts import SETTLES
from gateway.station.replays import Begun, Plan
from gateway.station.store import Store
from gateway.station.tables.operations import replays as sent

ADMITTED = Admission(bytes=5, charset="utf-8", tokens=1, exact=True, attachments=0, client="acme", admitted_at=900.0)


async def hold(store: Store, ticket: str, *, at: float = 1.0, client: str | None = "acme", **changes: Any) -> None:
    """Take an item in; without a client it came past the door."""
    admission = None if client is None else replace(ADMITTED, client=client)
    item = Envelope(ticket=TicketId(ticket), kind="k", body=b"hello", content_type="text/plain", admission=admission)
    wire = envelopes.encode(replace(item, **{"reason": "rejected", **changes}))
    async with store.writing() as transaction:
        await holding.take_in(transaction, arrivals.read(wire), channels=["log"], now=at)


async def leave_in_doubt(store: Store, ticket: str, *, ago: float = SETTLES) -> Begun:
    """Begin its replay and say no more of it, as a station that was killed so many seconds ago."""
    async with store.writing() as transaction:
        begun = await replays.begin(transaction, ticket, Decision(by="ana", reason="fixed"), Plan())
        aged = sa.update(sent).filter_by(ticket=ticket).values(begun_at=time.time() - ago)
        await transaction.execute(aged)
    assert isinstance(begun, Begun)
    return begun


async def report(store: Store, ticket: str, outcome: str = "crashed", *, attempt: int = 1, **evidence: Any) -> None:
    """Tell of the end of a run, as its node would."""
    event = Event(
        event=EventName.FINISHED,
        at=1.0,
        ticket=ticket,
        kind="k",
        node="n",
        stamp=Stamp(generation=0, attempt=attempt, interruptions=0),
        data={"outcome": outcome, "verdict": "quarantine", "evidence": evidence},
    )
    async with store.writing() as transaction:
        await ledger.post(transaction, [event])


async def newest(store: Store, ticket: str) -> Item:
    """Return a ticket's newest item."""
    found = await dossier.find(store, ticket)
    assert found is not None
    return found.items[0]
