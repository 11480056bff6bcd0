"""What clients with a callback are owed: one event for each end of a ticket, and for each decision after it.

Owns the rows of `callbacks` up to their sending, written in the transaction that makes them true; a ticket, a
generation and a state are one event, however often they are reported. Sends nothing.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import orjson
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.outcomes import TicketState
from gateway.station.store import Store
from gateway.station.tables.callbacks import callback_clients, callbacks
from gateway.station.tables.tickets import tickets

ENDS: Final = frozenset({TicketState.DONE, TicketState.QUARANTINED, TicketState.DISCARDED})
REPLAYED: Final = "replayed"
"""Of the generation that a reviewer's replay began."""
_IDS: Final = uuid.UUID("0d9d4b2e-3c7f-5e2a-8f0b-8a1a2a7e7704")


async def owe(
    transaction: AsyncConnection, reported: Iterable[tuple[str, int, TicketState]], insert: Any, now: float
) -> None:
    """Put into the outbox what these reports (ticket, generation, state) tell the clients of their tickets.

    They are merged already, so that a client of which only an earlier or later report knows is known.
    """
    given = list(reported)
    if not given or await transaction.scalar(sa.select(callback_clients.c.client).limit(1)) is None:
        return
    query = (
        sa.select(tickets)
        .join(callback_clients, callback_clients.c.client == tickets.c.client)
        .where(tickets.c.ticket.in_({ticket for ticket, _, _ in given}))
    )
    found = {row.ticket: row for row in await transaction.execute(query)}
    told = {(row.ticket, row.generation, row.state) for row in found.values() if row.state in ENDS}
    for ticket, generation, state in given:
        row = found.get(ticket)
        if row is None or generation > row.generation:
            continue
        if state is TicketState.ACCEPTED and generation > 0:
            told.add((ticket, generation, REPLAYED))
        elif state in ENDS and generation < row.generation:
            told.add((ticket, generation, state.value))
    rows = [_row(found[ticket], generation, state, now) for ticket, generation, state in sorted(told)]
    if rows:
        await transaction.execute(insert.on_conflict_do_nothing(), rows)


async def configure(store: Store, urls: Mapping[str, str]) -> None:
    """Take note of who has a callback, for everybody who writes to the store."""
    async with store.writing() as transaction:
        await transaction.execute(sa.delete(callback_clients))
        if urls:
            rows = [{"client": client, "url": url} for client, url in sorted(urls.items())]
            await transaction.execute(sa.insert(callback_clients), rows)


def _row(ticket: Any, generation: int, state: str, now: float) -> dict[str, Any]:
    event_id = str(uuid.uuid5(_IDS, f"{generation}:{state}:{ticket.ticket}"))
    is_current = generation == ticket.generation and state == ticket.state
    data = {
        "id": ticket.ticket,
        "kind": ticket.kind,
        "state": state,
        "generation": generation,
        "attempts": ticket.attempts if is_current else None,
        "detail": ticket.detail if is_current else None,
    }
    event = {
        "specversion": "1.0",
        "id": event_id,
        "source": "urn:lazaretto",
        "type": f"lazaretto.ticket.{state}",
        "subject": ticket.ticket,
        "time": datetime.fromtimestamp(now, UTC).isoformat().replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "data": {name: value for name, value in data.items() if value is not None},
    }
    return {
        "ticket": ticket.ticket,
        "generation": generation,
        "state": state,
        "client": ticket.client,
        "event_id": event_id,
        "document": orjson.dumps(event).decode(),
        "created_at": now,
        "due_at": now,
        "tries": 0,
    }


def waiting(client: str, now: float, most: int) -> sa.Select[Any]:
    """Return the query of what may be sent to a client now: of each ticket the oldest event alone, in order."""
    earlier = callbacks.alias()
    held_up = (
        sa.select(earlier.c.id)
        .where(earlier.c.ticket == callbacks.c.ticket, earlier.c.id < callbacks.c.id, _open(earlier))
        .exists()
    )
    return (
        sa.select(callbacks)
        .where(callbacks.c.client == client, _open(callbacks), callbacks.c.due_at <= now, sa.not_(held_up))
        .order_by(callbacks.c.id)
        .limit(most)
    )


def clients_waiting(now: float, clients: Sequence[str], most: int) -> sa.Select[Any]:
    """Return the query of those among `clients` for whom something is due."""
    due = sa.and_(_open(callbacks), callbacks.c.due_at <= now, callbacks.c.client.in_(clients))
    return sa.select(callbacks.c.client).where(due).group_by(callbacks.c.client).limit(most)


def _open(table: Any) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.sent_at.is_(None), table.c.dead_at.is_(None))
