"""Taking an exhausted item in: its row, its runs, its alerts and its ticket's state, in one transaction.

Owns how a row of `items` comes to be. A second delivery of the same item is one row and one alert; a different item
under a taken name gets a name of its own, because nothing is ever dropped here (Q9).
"""

from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.outcomes import Standing, TicketState
from gateway.station import ledger, standings
from gateway.station.amqp import freeze
from gateway.station.arrival import Arrival, charged_attempts, generation_runs
from gateway.station.arrival import named as names
from gateway.station.standings import Report
from gateway.station.storable import document, storable
from gateway.station.tables.alerts import alerts
from gateway.station.tables.items import items

EVIDENCE_SETTLES: Final = 0.3
"""Seconds an alert waits for its run's journal, which was published before the item but travels in another queue."""


class ItemState(StrEnum):
    """What has been decided about an item."""

    HELD = "held"
    REPLAYING = "replaying"
    """Somebody's replay was begun; whether the broker has it is not known yet."""
    REPLAYED = "replayed"
    DISCARDED = "discarded"


class AlertEvent(StrEnum):
    """What an alert tells; also its routing key."""

    QUARANTINED = "item.quarantined"
    RESOLVED = "item.resolved"
    REFUSALS_SURGED = "refusals.surged"
    """Of a rule, not of an item."""
    MISMATCH = "reconcile.mismatch"
    """Of queue, store and journal."""


async def take_in(
    transaction: AsyncConnection,
    arrival: Arrival,
    *,
    channels: Sequence[str],
    now: float,
    spool_path: str | None = None,
) -> str | None:
    """Store an item that has arrived and return the ticket id it is listed under; None if it is here already."""
    named: Arrival | None = await _unless_known(transaction, arrival)
    if named is None:
        return None
    before = await transaction.scalar(
        sa.select(sa.func.max(items.c.history_total)).where(
            items.c.ticket == named.ticket, items.c.generation < named.generation
        )
    )
    runs = generation_runs(named, before or 0)
    attempts = charged_attempts(named, runs)
    standing = Standing(stamp=named.stamp, state=TicketState.QUARANTINED)
    report = Report(
        ticket=named.ticket,
        kind=named.kind,
        standing=standing,
        attempts=attempts,
        at=now,
        client=named.admission.client if named.admission is not None else None,
        detail=named.reason,
    )
    # Tickets before runs, as the journal does: two transactions in opposite order would wait for each other.
    await standings.merge(transaction, [report])
    row = {**_row(named, attempts, now), "came_as": arrival.ticket, "spool_path": spool_path}
    await transaction.execute(sa.insert(items).values(**row))
    await ledger.post_history(transaction, ticket=named.ticket, kind=named.kind, runs_by_stamp=runs, at=now)
    await announce(
        transaction,
        ticket=named.ticket,
        generation=named.generation,
        event=AlertEvent.QUARANTINED,
        channels=channels,
        now=now,
    )
    return named.ticket


async def announce(
    transaction: AsyncConnection,
    *,
    ticket: str,
    generation: int,
    event: AlertEvent,
    channels: Sequence[str],
    now: float,
) -> None:
    """Put one alert for each channel into the outbox; once for each item, event and channel."""
    delay = EVIDENCE_SETTLES if event is AlertEvent.QUARANTINED else 0.0
    rows = [
        {
            "ticket": ticket,
            "generation": generation,
            "event": event.value,
            "channel": channel,
            "created_at": now,
            "due_at": now + delay,
            "tries": 0,
        }
        for channel in channels
    ]
    if rows:
        statement = standings.insert(transaction.dialect.name, alerts).on_conflict_do_nothing()
        await transaction.execute(statement, rows)


async def _unless_known(transaction: AsyncConnection, arrival: Arrival) -> Arrival | None:
    known_as = (arrival.ticket, arrival.digest, arrival.malformed)
    for candidate in names(arrival):
        query = sa.select(items.c.came_as, items.c.digest, items.c.malformed).filter_by(
            ticket=candidate.ticket, generation=candidate.generation
        )
        row = (await transaction.execute(query)).one_or_none()
        if row is None:
            return candidate
        if (row.came_as, row.digest, bool(row.malformed)) == known_as:
            return None
    raise AssertionError("there is always another name")


def _row(arrival: Arrival, attempts: int, now: float) -> dict[str, Any]:
    wire = arrival.wire
    return {
        "ticket": arrival.ticket,
        "generation": arrival.generation,
        "kind": storable(arrival.kind),
        "state": ItemState.HELD.value,
        "reason": storable(arrival.reason),
        "detail": storable(arrival.detail),
        "malformed": int(arrival.malformed),
        "attempt": arrival.stamp.attempt,
        "attempts": attempts,
        "crashes": arrival.crashes,
        "interruptions": arrival.stamp.interruptions,
        "body": wire.body,
        "digest": arrival.digest,
        "properties": freeze(wire),
        "content_type": storable(wire.content_type),
        "content_encoding": storable(wire.content_encoding),
        "headers": document(dict(wire.headers)),
        "admission": None if arrival.admission is None else document(asdict(arrival.admission)),
        "history_total": arrival.history_total,
        "submitted_at": wire.timestamp,
        "arrived_at": now,
    }
