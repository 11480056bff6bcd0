"""Taking an exhausted item in: its row, its runs, its alerts and escalation, its ticket's state, in one transaction.

Owns how a row of `items` comes to be. A second delivery of the same item is one row and one alert; a different item
under a taken name gets a name of its own, because nothing is ever dropped here (Q9).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.outcomes import Standing, TicketState
from gateway.station import escalations, grouping, ledger, standings, tallying
from gateway.station.amqp import freeze
from gateway.station.arrival import Arrival, charged_attempts, generation_runs
from gateway.station.arrival import named as names
from gateway.station.escalations import ESCALATION
from gateway.station.ledger import Brought
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
    SUSPECT = "item.suspect"
    """It has killed a second worker, and is not in quarantine yet."""
    REFUSALS_SURGED = "refusals.surged"
    """Of a rule, not of an item."""
    MISMATCH = "reconcile.mismatch"
    """Of queue, store and journal."""
    REVIEW_OVERDUE = "review.overdue"
    """Of an item that nobody has decided by its deadline."""
    STORM = "fleet.storm"
    """Of a handler's build; the nodes themselves tell the exchange."""
    STORM_LIFTED = "fleet.storm_lifted"
    """The same, over; nodes tell the exchange as `fleet.storm` with another state."""
    TEST = "alerts.test"
    """Of nothing: somebody wants to see that it arrives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _New:
    """All that becomes of one item that is taken in."""

    report: Report
    row: dict[str, Any]
    brought: Brought


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
    new = _new(named, came_as=arrival.ticket, before=before or 0, now=now, spool_path=spool_path)
    await _store(transaction, [new], channels, now)
    return named.ticket


async def take_in_new(
    transaction: AsyncConnection, arrivals: Sequence[Arrival], *, channels: Sequence[str], now: float
) -> tuple[Sequence[Arrival], Sequence[Arrival]]:
    """Store all those at once that nothing stands in the way of; return them, and the others, which are for `take_in`.

    In the way stand an item of that name, here or among them, and an earlier generation, whose history has to be told
    from this one's.
    """
    asked = sa.select(items.c.ticket).where(items.c.ticket.in_({arrival.ticket for arrival in arrivals}))
    taken = set((await transaction.scalars(asked)).all())
    times = Counter(arrival.ticket for arrival in arrivals)
    stored: list[Arrival] = []
    others: list[Arrival] = []
    for arrival in arrivals:
        is_new = arrival.ticket not in taken and times[arrival.ticket] == 1 and not arrival.generation
        (stored if is_new else others).append(arrival)
    if stored:
        new = [_new(one, came_as=one.ticket, before=0, now=now, spool_path=None) for one in stored]
        await _store(transaction, new, channels, now)
    return stored, others


async def _store(transaction: AsyncConnection, new: Sequence[_New], channels: Sequence[str], now: float) -> None:
    # Tickets before runs, as the journal does: two transactions in opposite order would wait for each other.
    await standings.merge(transaction, [one.report for one in new])
    await ledger.post_history(transaction, [one.brought for one in new], now)
    rows = [one.row for one in new]
    await grouping.place(transaction, rows)  # before they are written: a row is as large as its body
    await transaction.execute(sa.insert(items), rows)
    stored = [(row["ticket"], row["generation"]) for row in rows]
    if ESCALATION in channels:
        await escalations.owe(transaction, stored, now)
    await _announce(transaction, stored, AlertEvent.QUARANTINED, channels, now)
    taken_in = Counter(tallying.label(row["kind"], row["reason"]) for row in rows)
    await tallying.add(transaction, tallying.QUARANTINED, taken_in)


def _new(named: Arrival, *, came_as: str, before: int, now: float, spool_path: str | None) -> _New:
    runs = generation_runs(named, before)
    attempts = charged_attempts(named, runs)
    report = Report(
        ticket=named.ticket,
        kind=named.kind,
        standing=Standing(stamp=named.stamp, state=TicketState.QUARANTINED),
        attempts=attempts,
        at=now,
        client=named.admission.client if named.admission is not None else None,
        detail=named.reason,
    )
    row = {**_row(named, attempts, now), "came_as": came_as, "spool_path": spool_path}
    return _New(report=report, row=row, brought=Brought(ticket=named.ticket, kind=named.kind, runs=runs))


async def announce(
    transaction: AsyncConnection,
    *,
    ticket: str,
    generation: int,
    event: AlertEvent,
    channels: Sequence[str],
    now: float,
) -> None:
    """Put one alert for each channel into the outbox; once for each item, event and channel.

    A decision about an item that was restored after an earlier decision is told again.
    """
    await _announce(transaction, [(ticket, generation)], event, channels, now)
    if event is AlertEvent.RESOLVED:
        decided = sa.select(items.c.decided_at).filter_by(ticket=ticket, generation=generation).scalar_subquery()
        earlier = sa.and_(alerts.c.sent_at.is_not(None), alerts.c.created_at < decided)
        again = sa.update(alerts).filter_by(ticket=ticket, generation=generation, event=event.value).where(earlier)
        await transaction.execute(again.values(sent_at=None, created_at=now, due_at=now))


async def _announce(
    transaction: AsyncConnection,
    concerned: Sequence[tuple[str, int]],
    event: AlertEvent,
    channels: Sequence[str],
    now: float,
) -> None:
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
        for ticket, generation in concerned
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
