"""How much waits for whom: unreviewed, overdue, on hold, and how long the oldest has waited; questions only.

Owns the bound on owners that are told apart: names of people are typed by people, and each is a label of metrics.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.station import owners
from gateway.station.duties import EVERY_OTHER
from gateway.station.holding import ItemState
from gateway.station.tables.items import items
from gateway.station.tables.reviews import duties

MOST_OWNERS: Final = 50
OTHERS: Final = "(others)"
"""Stands for all owners beyond that; no policy file can name it so that it means somebody, as lists show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What waits for one owner."""

    owner: str
    """Empty: what is nobody's in particular."""
    unreviewed: int = 0
    """Undecided, and nobody said that it must wait."""
    overdue: int = 0
    """Of those, the ones that should have been decided by now."""
    on_hold: int = 0
    oldest: float | None = None
    """When the unreviewed one arrived that has been here longest (Unix seconds)."""
    next_deadline: float | None = None
    """When the next of them must be decided; in the past where one is overdue."""

    def with_all_of(self, other: "Load") -> "Load":
        """Return both together, under this one's name."""
        return replace(
            self,
            unreviewed=self.unreviewed + other.unreviewed,
            overdue=self.overdue + other.overdue,
            on_hold=self.on_hold + other.on_hold,
            oldest=_earlier(self.oldest, other.oldest),
            next_deadline=_earlier(self.next_deadline, other.next_deadline),
        )


async def loads(transaction: AsyncConnection, now: float) -> list[Load]:
    """Return what waits for whom: owners that the policy names and those who have something, most overdue first."""
    unreviewed, late = owners.is_unreviewed(), owners.is_overdue(now)
    query = (
        sa.select(
            owners.owner().label("owner"),
            _number(unreviewed),
            _number(late),
            _number(owners.is_on_hold()),
            sa.func.min(sa.case((unreviewed, items.c.arrived_at))),
            sa.func.min(sa.case((unreviewed, owners.deadline()))),
        )
        .where(items.c.state == ItemState.HELD.value)
        .group_by("owner")
    )
    rows = (await transaction.execute(query)).all()
    names = ("owner", "unreviewed", "overdue", "on_hold", "oldest", "next_deadline")
    found = [Load(**dict(zip(names, row, strict=True))) for row in rows]
    named = (await transaction.scalars(sa.select(duties.c.owner).distinct())).all()
    idle = {EVERY_OTHER, *named} - {load.owner for load in found}
    return _bounded([*found, *(Load(owner=name) for name in sorted(idle))], named)


async def states(transaction: AsyncConnection, known: Iterable[str]) -> dict[tuple[str, str], int]:
    """Count all items by state and owner; every owner but the `known` ones is `OTHERS`."""
    # By kind first and by owner afterwards: most of a store is decided, and no row of that needs a look at duties.
    by = (items.c.state, items.c.kind, items.c.assigned)
    rows = (await transaction.execute(sa.select(*by, sa.func.count()).group_by(*by))).all()
    of_kind = {row.kind: row.owner for row in (await transaction.execute(sa.select(duties))).all()}
    told_apart = set(known)
    counted: dict[tuple[str, str], int] = defaultdict(int)
    for state, kind, assigned, number in rows:
        owner = assigned if assigned is not None else of_kind.get(kind, of_kind.get(EVERY_OTHER, ""))
        counted[state, owner if owner in told_apart else OTHERS] += number
    for owner in told_apart:
        for state in ItemState:
            counted.setdefault((state.value, owner), 0)
    return dict(counted)


def _bounded(found: Sequence[Load], named: Sequence[str]) -> list[Load]:
    """Keep whom the policy names, then who has most; the rest is one."""
    first = sorted(found, key=lambda load: (load.owner != "", load.owner not in named, -load.unreviewed, load.owner))
    kept, rest = first[:MOST_OWNERS], first[MOST_OWNERS:]
    if rest:
        others = Load(owner=OTHERS)
        for load in rest:
            others = others.with_all_of(load)
        kept.append(others)
    return sorted(kept, key=lambda load: (-load.overdue, -load.unreviewed, load.owner))


def _number(condition: Any) -> Any:
    return sa.func.coalesce(sa.func.sum(sa.case((condition, 1), else_=0)), 0)


def _earlier(one: float | None, other: float | None) -> float | None:
    return min((moment for moment in (one, other) if moment is not None), default=None)
