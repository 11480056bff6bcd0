"""What is handed to people outside: owed with its item, sent once, acknowledged, closed with the decision (Q3).

Owns the table `escalations`. Sends nothing: the sending is the outbox's, on a channel that is called `ESCALATION`.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.text import clip
from gateway.station import acts
from gateway.station.acts import Act
from gateway.station.escalation_state import EscalationState, escalation_state
from gateway.station.storable import storable
from gateway.station.store import Store
from gateway.station.tables.alerts import alerts, escalations
from gateway.station.tables.items import items
from gateway.station.tables.tickets import tickets

ESCALATION: Final = "escalation"
"""Name of the channel, whichever way it goes: what is owed goes the way that is configured by then."""
ANSWER: Final = "its answer"
"""Who acknowledged what came back with a reference."""
MAX_REFERENCE: Final = 200
MAX_LISTED: Final = 500
_WAITING: Final = ("held", "replaying")
_OPENING: Final = "item.quarantined"
_WITH_THEM: Final = sa.and_(escalations.c.sent_at.is_not(None), escalations.c.closed_at.is_(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """One item as it was handed over."""

    ticket: str
    generation: int
    kind: str
    client: str | None
    reason: str
    state: EscalationState
    created_at: float
    """Unix seconds."""
    sent_at: float | None
    reference: str | None
    """What the outside calls it."""
    acknowledged_at: float | None
    acknowledged_by: str | None
    tries: int
    last_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotOpen:
    """There is nothing to acknowledge; `why` is a sentence."""

    why: str


async def owe(transaction: AsyncConnection, taken_in: Iterable[tuple[str, int]], now: float) -> None:
    """Put items (ticket, generation) that are being taken in on record as ones to be handed over."""
    rows = [{"ticket": ticket, "generation": generation, "created_at": now} for ticket, generation in taken_in]
    await transaction.execute(sa.insert(escalations), rows)


async def owe_again(transaction: AsyncConnection, ticket: str, generation: int, now: float) -> None:
    """Owe the handing over of an item that is held again to people outside who do not know that it is open.

    They have not heard of it while it was decided, or they have been told of its end.
    """
    unknown = sa.exists().where(
        escalations.c.ticket == alerts.c.ticket,
        escalations.c.generation == alerts.c.generation,
        sa.not_(_WITH_THEM),
    )
    opening = sa.update(alerts).filter_by(ticket=ticket, generation=generation, channel=ESCALATION, event=_OPENING)
    again = opening.where(alerts.c.sent_at.is_not(None), unknown)
    await transaction.execute(again.values(sent_at=None, text=None, created_at=now, due_at=now))
    closed = sa.update(escalations).filter_by(ticket=ticket, generation=generation)
    anew = {"acknowledged_at": None, "acknowledged_by": None}
    await transaction.execute(closed.where(escalations.c.closed_at.is_not(None)).values(**anew))


async def is_due(transaction: AsyncConnection, ticket: str, generation: int) -> bool:
    """Tell whether an item is still to be handed over: nobody has decided about it."""
    query = sa.select(items.c.state).filter_by(ticket=ticket, generation=generation)
    return await transaction.scalar(query) in _WAITING


async def is_with_them(transaction: AsyncConnection, ticket: str, generation: int) -> bool:
    """Tell whether people outside have it, and take it for open."""
    query = sa.select(_WITH_THEM).filter_by(ticket=ticket, generation=generation)
    return bool(await transaction.scalar(query))


async def was_closed(transaction: AsyncConnection, ticket: str, generation: int) -> bool:
    """Tell whether the last that people outside heard of it is that it is over."""
    query = sa.select(escalations.c.closed_at).filter_by(ticket=ticket, generation=generation)
    return await transaction.scalar(query) is not None


async def note_closed(transaction: AsyncConnection, ticket: str, generation: int, now: float) -> None:
    """Take note that its end was told; of one that was held again meanwhile they have to hear once more.

    The item is locked first, as by whoever decides about it: one of both sees what the other has done.
    """
    state = sa.select(items.c.state).filter_by(ticket=ticket, generation=generation).with_for_update()
    is_waiting = await transaction.scalar(state) in _WAITING
    this = sa.update(escalations).filter_by(ticket=ticket, generation=generation)
    await transaction.execute(this.values(closed_at=now))
    if is_waiting:
        await owe_again(transaction, ticket, generation, now)


async def note_sent(
    transaction: AsyncConnection, *, ticket: str, generation: int, reference: str | None, now: float
) -> None:
    """Take note that it went out, and of what the other side calls it, if it said."""
    this = sa.update(escalations).filter_by(ticket=ticket, generation=generation)
    await transaction.execute(this.values(sent_at=now, closed_at=None))
    if reference is not None:
        known = {"reference": _reference(reference), "acknowledged_at": now, "acknowledged_by": ANSWER}
        await transaction.execute(this.where(escalations.c.acknowledged_at.is_(None)).values(**known))


async def acknowledge(store: Store, ticket: str, *, reference: str, by: str) -> Escalation | NotOpen:
    """Take note that somebody outside has taken on the newest item of a ticket; audited. Again is allowed."""
    async with store.writing() as transaction:
        found = await _find(transaction, escalations.c.ticket == ticket, 1)
        if not found:
            return NotOpen(why=f"ticket {ticket} was never escalated")
        if found[0].state is EscalationState.CLOSED:
            return NotOpen(why=f"the escalation of ticket {ticket} is closed: its item is decided")
        generation, now = found[0].generation, time.time()
        changes = {"reference": _reference(reference), "acknowledged_at": now, "acknowledged_by": storable(by)}
        this = sa.update(escalations).filter_by(ticket=ticket, generation=generation)
        await transaction.execute(this.values(**changes))
        await acts.note(
            transaction,
            act=Act.ESCALATION_ACKNOWLEDGED,
            by=by,
            reason=f"reference {changes['reference']}",
            ticket=ticket,
            generation=generation,
            at=now,
        )
        return (await _find(transaction, escalations.c.ticket == ticket, 1))[0]


async def find(store: Store, ticket: str) -> list[Escalation]:
    """Return the escalations of a ticket, the newest generation first."""
    async with store.reading() as transaction:
        return await _find(transaction, escalations.c.ticket == ticket, MAX_LISTED)


async def find_open(store: Store) -> list[Escalation]:
    """Return at most `MAX_LISTED` of those whose item nobody has decided about, the oldest first."""
    async with store.reading() as transaction:
        return await _find(transaction, items.c.state.in_(_WAITING), MAX_LISTED, oldest_first=True)


async def count_open(transaction: AsyncConnection) -> int:
    """Count all of these."""
    query = sa.select(sa.func.count()).select_from(escalations.join(items)).where(items.c.state.in_(_WAITING))
    return await transaction.scalar(query) or 0


async def _find(
    transaction: AsyncConnection, which: sa.ColumnElement[bool], most: int, *, oldest_first: bool = False
) -> list[Escalation]:
    order = (escalations.c.created_at, escalations.c.ticket) if oldest_first else (escalations.c.generation.desc(),)
    sending = sa.and_(
        alerts.c.ticket == escalations.c.ticket,
        alerts.c.generation == escalations.c.generation,
        alerts.c.channel == ESCALATION,
        alerts.c.event == _OPENING,
    )
    joined = escalations.join(items).outerjoin(alerts, sending).outerjoin(tickets, tickets.c.ticket == items.c.ticket)
    told = (items.c.kind, items.c.reason, items.c.state, tickets.c.client, alerts.c.tries, alerts.c.last_error)
    query = sa.select(escalations, *told).select_from(joined).where(which).order_by(*order).limit(most)
    rows: Sequence[Any] = (await transaction.execute(query)).all()
    return [
        Escalation(
            ticket=row.ticket,
            generation=row.generation,
            kind=row.kind,
            client=row.client,
            reason=row.reason,
            state=escalation_state(
                is_open=row.state in _WAITING,
                sent=row.sent_at is not None,
                told_over=row.closed_at is not None,
                acknowledged=row.acknowledged_at is not None,
            ),
            created_at=row.created_at,
            sent_at=row.sent_at,
            reference=row.reference,
            acknowledged_at=row.acknowledged_at,
            acknowledged_by=row.acknowledged_by,
            tries=row.tries or 0,
            last_error=row.last_error,
        )
        for row in rows
    ]


def _reference(text: str) -> str:
    return clip(text.strip(), MAX_REFERENCE)
