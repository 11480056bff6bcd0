"""Who did what and why, searched; questions only.

Owns the queries over `audit` that are about more than one ticket. Pages are cut by row number, which only grows.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from gateway.station.store import Store
from gateway.station.tables.audit import audit

PAGE: Final = 100
_BATCH: Final = 1000
_MOST_CHOICES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which acts are meant; None is any."""

    actor: str | None = None
    act: str | None = None
    ticket: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One act."""

    id: int
    at: float
    """Unix seconds."""
    actor: str
    act: str
    ticket: str
    """Empty for an act about an operation as a whole."""
    generation: int
    reason: str
    code: str | None
    """Of a discard."""
    operation: str | None
    """That it was part of."""


async def find(store: Store, wanted: Wanted, *, below: int | None = None, limit: int = PAGE) -> Sequence[Entry]:
    """Return acts, the newest first; `below` is the number of the last one of the page before."""
    query = sa.select(audit).order_by(audit.c.id.desc()).limit(limit)
    for name in ("actor", "act", "ticket"):
        if (value := getattr(wanted, name)) is not None:
            query = query.where(audit.c[name] == value)
    if below is not None:
        query = query.where(audit.c.id < below)
    async with store.reading() as transaction:
        return [_entry(row) for row in (await transaction.execute(query)).all()]


async def each(store: Store, wanted: Wanted) -> AsyncIterator[Entry]:
    """Yield every act that is meant, the newest first; in batches, so that nobody waits for a long export to end."""
    below: int | None = None
    while found := await find(store, wanted, below=below, limit=_BATCH):
        for entry in found:
            yield entry
        below = found[-1].id


async def acts(store: Store) -> list[str]:
    """Return what kinds of acts there are, to choose from."""
    query = sa.select(audit.c.act).distinct().order_by(audit.c.act).limit(_MOST_CHOICES)
    async with store.reading() as transaction:
        return list(await transaction.scalars(query))


def _entry(row: Any) -> Entry:
    names = ("id", "at", "actor", "act", "ticket", "generation", "reason", "code", "operation")
    return Entry(**{name: getattr(row, name) for name in names})
