"""How many, when, of what: quarantines, lost runs and refusals over time; questions only.

Owns the counting into equal spans. Reads no body and no evidence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from gateway.station.store import Store
from gateway.station.tables.items import items
from gateway.station.tables.refusals import refusal_counts
from gateway.station.tables.tickets import DIED, runs
from gateway.station.told_twice import is_told_once

MOST_SERIES: Final = 5
OTHERS: Final = "others"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of time in equal parts."""

    begin: int
    """Unix seconds."""
    width: int
    """Seconds of a part."""
    parts: int

    @property
    def end(self) -> int:
        """Unix seconds, where it stops."""
        return self.begin + self.width * self.parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Counts by name, each as long as the span has parts; the greatest first, what is left as `others`."""

    span: Span
    series: Sequence[tuple[str, Sequence[int]]]

    @property
    def total(self) -> int:
        """All of it."""
        return sum(sum(counts) for _, counts in self.series)


def last(now: float, *, width: int, parts: int) -> Span:
    """Return the span that ends with the part that holds `now`."""
    return Span(begin=(int(now) // width - parts + 1) * width, width=width, parts=parts)


async def quarantines(store: Store, span: Span) -> Trend:
    """Count items by kind, when they arrived."""
    return await _count(store, span, items.c.arrived_at, items.c.kind, sa.func.count())


async def losses(store: Store, span: Span) -> Trend:
    """Count the runs in which a worker or its holder died, by kind, when they were reported."""
    return await _count(store, span, runs.c.reported_at, runs.c.kind, sa.func.count(), DIED, is_told_once())


async def refusals(store: Store, span: Span) -> Trend:
    """Count what was refused by rule; one that broke several rules counts for each."""
    number = sa.func.sum(refusal_counts.c.number)
    return await _count(store, span, refusal_counts.c.minute, refusal_counts.c.rule, number)


def arranged(span: Span, rows: Sequence[tuple[int, str, int]]) -> Trend:
    """Return the trend of rows of (part, name, count), at most `MOST_SERIES` of it by name."""
    counted: dict[str, list[int]] = {}
    for part, name, number in rows:
        if 0 <= part < span.parts:
            counted.setdefault(name, [0] * span.parts)[part] += int(number)
    ranked = sorted(counted.items(), key=lambda one: (-sum(one[1]), one[0]))
    series: list[tuple[str, Sequence[int]]] = list(ranked[:MOST_SERIES])
    if left := ranked[MOST_SERIES:]:
        series.append((OTHERS, [sum(parts) for parts in zip(*(counts for _, counts in left), strict=True)]))
    return Trend(span=span, series=series)


async def _count(
    store: Store, span: Span, at: Any, name: Any, number: Any, *which: sa.ColumnElement[bool] | sa.TextClause
) -> Trend:
    # Whole numbers: databases do not agree on how to cut a fraction off.
    part = ((sa.cast(at, sa.BigInteger) - span.begin) // span.width).label("part")
    query = sa.select(part, name, number).where(at >= span.begin, at < span.end, *which).group_by(part, name)
    async with store.reading() as transaction:
        rows = (await transaction.execute(query)).all()
    return arranged(span, [(row[0], row[1], row[2]) for row in rows])
