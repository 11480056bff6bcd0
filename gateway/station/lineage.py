"""How the generations of one ticket came one from the other; questions only.

Owns the reading of `replays`: lane, who, when, confirmed or not, and what an edit changed.
"""

from dataclasses import dataclass

import sqlalchemy as sa

from gateway.station.store import Store
from gateway.station.tables.operations import replays


@dataclass(frozen=True, slots=True, kw_only=True)
class Descent:
    """One replay: of which generation, and how the next one began. Times in Unix seconds."""

    replayed_from: int
    generation: int
    lane: str
    by: str
    operation: str | None
    begun_at: float
    confirmed_at: float | None
    """None while it is sent, unconfirmed."""
    edited: bool
    content_type: str | None
    """Of the edited body."""
    difference: str | None
    """What the edit changed, as a unified diff."""


async def find(store: Store, ticket: str) -> list[Descent]:
    """Return the replays of a ticket, oldest first."""
    columns = [column for column in replays.c if column.name != "body"]
    edited = replays.c.body.is_not(None).label("edited")
    query = sa.select(*columns, edited).filter_by(ticket=ticket).order_by(replays.c.generation)
    async with store.reading() as transaction:
        rows = (await transaction.execute(query)).all()
    return [
        Descent(
            replayed_from=row.generation,
            generation=row.generation + 1,
            lane=row.lane,
            by=row.by,
            operation=row.operation,
            begun_at=row.begun_at,
            confirmed_at=row.confirmed_at,
            edited=bool(row.edited),
            content_type=row.content_type,
            difference=row.difference,
        )
        for row in rows
    ]
