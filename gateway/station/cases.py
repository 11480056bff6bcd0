"""What an alert tells of an item: asked of many at once, and no more of each than is told.

Owns the queries of the outbox about items. Never writes, never reads a body.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.station import told_twice
from gateway.station.dossier import Run, run_of
from gateway.station.holding import ItemState
from gateway.station.tables.items import items
from gateway.station.tables.tickets import runs, tickets

_IN_ORDER: Final = (runs.c.ticket, runs.c.generation, runs.c.attempt, runs.c.interruptions)
_OF_ITEM: Final = ("ticket", "generation", "kind", "state", "reason", "detail", "attempts")
_OF_ITS_TIMES: Final = ("arrived_at", "decided_at", "decided_by", "decision_reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One generation of a ticket as it is or was held."""

    ticket: str
    generation: int
    kind: str
    state: ItemState
    reason: str
    detail: str | None
    attempts: int
    arrived_at: float
    decided_at: float | None
    decided_by: str | None
    decision_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A subject, and what else is told of it."""

    item: Subject
    last: Run | None
    """The last run of this generation; None where it was never started."""
    client: str | None


async def find(transaction: AsyncConnection, keys: Collection[tuple[str, int]]) -> dict[tuple[str, int], Case]:
    """Return what is known of items (ticket, generation), many in two queries; what is not held is left out."""
    if not keys:
        return {}
    columns = [items.c[name] for name in (*_OF_ITEM, *_OF_ITS_TIMES)]
    joined = items.outerjoin(tickets, tickets.c.ticket == items.c.ticket)
    held = sa.select(*columns, tickets.c.client).select_from(joined).where(_among(items, keys))
    told = sa.select(runs).where(_among(runs, keys)).order_by(*_IN_ORDER)
    found = (await transaction.execute(held)).all()
    rows = defaultdict[tuple[str, int], list[Any]](list)
    for row in (await transaction.execute(told)).all():
        rows[row.ticket, row.generation].append(row)
    return {(row.ticket, row.generation): _case(row, rows[row.ticket, row.generation]) for row in found}


def _case(row: Any, its_runs: list[Any]) -> Case:
    item = Subject(
        ticket=row.ticket,
        generation=row.generation,
        kind=row.kind,
        state=ItemState(row.state),
        reason=row.reason,
        detail=row.detail,
        attempts=row.attempts,
        arrived_at=row.arrived_at,
        decided_at=row.decided_at,
        decided_by=row.decided_by,
        decision_reason=row.decision_reason,
    )
    told = told_twice.told_once(its_runs)
    return Case(item=item, last=run_of(told[-1]) if told else None, client=row.client)


def _among(rows: sa.Table, keys: Collection[tuple[str, int]]) -> sa.ColumnElement[bool]:
    return sa.tuple_(rows.c.ticket, rows.c.generation).in_(keys)
