"""Items and tickets as door, nodes and broker tell the station of them, for tests of what reviewers do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Admission, Envelope
from gateway.contract.history import History, RunRecord
from gateway.contract.ids import TicketId, uuid7
from gateway.contract.journal import Event, EventName
from gateway.contract.outcomes import Outcome, Stamp
from gateway.station import arrival as arrivals
from gateway.station import holding, ledger
from gateway.station.store import Store


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    """A store, closed at the end."""
    store = await Store.open(url)
    try:
        yield store
    finally:
        await store.close()


async def admit(
    store: Store, ticket: str, *, kind: str = "k", client: str = "globex", size: int = 4096, charset: str = "utf-8"
) -> None:
    """Have a door tell that it took a ticket in."""
    data = {"client": client, "bytes": size, "charset": charset}
    await _post(store, _event(EventName.ACCEPTED, ticket, kind, 0, data))


async def succeed(store: Store, ticket: str, *, kind: str = "k", build: str = "b1", **facts: Any) -> None:
    """Have a ticket taken in and done."""
    await admit(store, ticket, kind=kind, **facts)
    data = {"outcome": "succeeded", "verdict": "ack", "evidence": {"build": build}}
    await _post(store, _event(EventName.FINISHED, ticket, kind, 0, data))


async def end_badly(
    store: Store, ticket: str, *, kind: str = "k", generation: int = 0, outcome: str = "failed", **evidence: Any
) -> None:
    """Have a node tell that a run ended, and that its item goes to quarantine."""
    data = {"outcome": outcome, "verdict": "quarantine", "evidence": evidence}
    await _post(store, _event(EventName.FINISHED, ticket, kind, generation, data))


async def arrive(
    store: Store,
    ticket: str,
    *,
    kind: str = "k",
    generation: int = 0,
    at: float = 1.0,
    outcome: str = "failed",
    client: str = "globex",
    size: int = 4096,
    charset: str = "utf-8",
) -> None:
    """Have an item come to quarantine."""
    record = RunRecord(attempt=1, outcome=Outcome(outcome), node="n", code="ValueError")
    facts = Admission(bytes=size, charset=charset, tokens=1, exact=True, attachments=0, client=client, admitted_at=at)
    item = Envelope(
        ticket=TicketId(ticket),
        kind=kind,
        generation=generation,
        body=b"x",
        content_type="text/plain",
        reason="attempts_exhausted",
        admission=facts,
        history=History((record,)),
    )
    async with store.writing() as transaction:
        await holding.take_in(transaction, arrivals.read(envelopes.encode(item)), channels=[], now=at)


async def fall_ill(
    store: Store, ticket: str, *, kind: str = "k", evidence: dict[str, Any] | None = None, **facts: Any
) -> None:
    """Have a ticket run, fail and come to quarantine."""
    told = {"error_type": "acme.Broken", "message": "no", "build": "b1", **(evidence or {})}
    await end_badly(store, ticket, kind=kind, outcome=facts.get("outcome", "failed"), **told)
    await arrive(store, ticket, kind=kind, **facts)


def _event(name: EventName, ticket: str, kind: str, generation: int, data: dict[str, Any]) -> Event:
    stamp = Stamp(generation=generation, attempt=1, interruptions=0)
    return Event(id=uuid7(), event=name, at=1.0, ticket=ticket, kind=kind, node="n", stamp=stamp, data=data)


async def _post(store: Store, event: Event) -> None:
    async with store.writing() as transaction:
        await ledger.post(transaction, [event])
