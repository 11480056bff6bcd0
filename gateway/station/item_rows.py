"""One item's row while somebody decides about it: read under a lock, changed only from the state that was read.

Owns the compare-and-set of every decision, and what a change of state owes to others: the ticket's standing, the alert
that is resolved. Tickets are locked before items, as the keeper does: two transactions in opposite order would wait for
each other.
"""

import time
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.outcomes import Standing
from gateway.station import holding, standings, wording
from gateway.station.decided import Decision, Taken
from gateway.station.holding import AlertEvent, ItemState
from gateway.station.standings import Report
from gateway.station.storable import storable
from gateway.station.tables.alerts import alerts
from gateway.station.tables.items import items
from gateway.station.tables.tickets import tickets


async def newest(transaction: AsyncConnection, ticket: str) -> Any:
    """Return the row of a ticket's newest generation that ended here, locked until the transaction ends, or None."""
    await transaction.execute(sa.select(tickets.c.ticket).filter_by(ticket=ticket).with_for_update())
    query = sa.select(items).filter_by(ticket=ticket).order_by(items.c.generation.desc()).limit(1)
    return (await transaction.execute(query.with_for_update())).one_or_none()


async def decide(transaction: AsyncConnection, row: Any, state: ItemState, decision: Decision, now: float) -> None:
    """Change the state of a locked row, with who and why."""
    changes = {
        "state": state.value,
        "decided_at": now,
        "decided_by": storable(decision.by),
        "decision_reason": storable(decision.reason),
    }
    await transaction.execute(update(row).values(**changes))


async def hold(transaction: AsyncConnection, row: Any) -> None:
    """Let a locked row wait for a decision again."""
    nobody = dict.fromkeys(("decided_at", "decided_by", "decision_reason", "decision_code"))
    await transaction.execute(update(row).values(state=ItemState.HELD.value, **nobody))


async def stand(
    transaction: AsyncConnection,
    row: Any,
    standing: Standing,
    *,
    attempts: int,
    now: float,
    detail: str | None = None,
) -> None:
    """Say where its ticket stands from now on."""
    report = Report(ticket=row.ticket, kind=row.kind, standing=standing, attempts=attempts, at=now, detail=detail)
    await standings.merge(transaction, [report])


async def resolve(transaction: AsyncConnection, row: Any, now: float | None = None) -> None:
    """Tell whoever was told of the item that it is decided: by the channels of its alert, not of this process."""
    told = sa.select(alerts.c.channel).filter_by(
        ticket=row.ticket, generation=row.generation, event=AlertEvent.QUARANTINED.value, retired_at=None
    )
    channels: Sequence[str] = (await transaction.scalars(told)).all()
    await holding.announce(
        transaction,
        ticket=row.ticket,
        generation=row.generation,
        event=AlertEvent.RESOLVED,
        channels=channels,
        now=time.time() if now is None else now,
    )


def update(row: Any) -> sa.Update:
    """Return an update of this row."""
    return sa.update(items).where(items.c.ticket == row.ticket, items.c.generation == row.generation)


async def gone(transaction: AsyncConnection, row: Any, seen: int | None) -> Taken:
    """Say whose decision stands, to somebody who saw generation `seen` (None: the newest)."""
    if seen in (None, row.generation):
        return taken(row)
    query = sa.select(items).filter_by(ticket=row.ticket, generation=seen)
    earlier = (await transaction.execute(query)).one_or_none()
    if earlier is not None and earlier.state != ItemState.HELD:
        return taken(earlier)
    sentence = f"ticket {row.ticket} is in quarantine as generation {row.generation} by now, not as {seen}"
    return Taken(sentence=sentence, state=ItemState(row.state))


def taken(row: Any) -> Taken:
    """Say whose decision stands."""
    state = ItemState(row.state)
    if state is ItemState.HELD:
        sentence = f"ticket {row.ticket}, generation {row.generation}, is held and nobody has begun a replay"
        return Taken(sentence=sentence, state=state)
    when = wording.clock(row.decided_at)
    told = f"ticket {row.ticket}, generation {row.generation}, was already {{}} by {row.decided_by} at {when}"
    if state is ItemState.REPLAYING:
        sentence = told.format("sent") + ", unconfirmed; `replay --resume` sends it again"
    else:
        sentence = told.format(state.value) + f", because: {row.decision_reason}"
    return Taken(sentence=sentence, state=state, by=row.decided_by, at=row.decided_at, reason=row.decision_reason)
