"""How much waits for whom: unreviewed, overdue, on hold, and how long the oldest has waited; questions only.

Owns the bound on owners that are told apart: names of people are typed by people, and each is a label of metrics.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.station import owners
from gateway.station.duties import EVERY_OTHER, Duty
from gateway.station.holding import ItemState
from gateway.station.selection import WAITING
from gateway.station.tables.items import items
from gateway.station.tables.reviews import duties

MOST_OWNERS: Final = 50
_NEVER: Final = -1.0
"""A moment before which nothing arrived."""
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
    # By kind first and by owner afterwards: so no row of a large store needs a look at duties.
    by_kind = await _duties(transaction)
    cutoffs = {kind: now - duty.review_within for kind, duty in by_kind.items() if duty.review_within}
    general = cutoffs.pop(EVERY_OTHER, _NEVER)
    endless = {kind: _NEVER for kind, duty in by_kind.items() if kind != EVERY_OTHER and not duty.review_within}
    cutoff = sa.case(cutoffs | endless, value=items.c.kind, else_=general) if cutoffs | endless else sa.literal(general)
    waits, arrived = owners.is_on_hold(), items.c.arrived_at
    late = sa.func.sum(sa.case((arrived < cutoff, 1), else_=0))
    by = (items.c.kind, items.c.assigned, waits)
    query = sa.select(*by, sa.func.count(), late, sa.func.min(arrived)).where(items.c.state == ItemState.HELD.value)
    found: dict[str, Load] = {}
    for kind, assigned, on_hold, number, overdue, oldest in (await transaction.execute(query.group_by(*by))).all():
        duty = by_kind.get(kind, by_kind[EVERY_OTHER])
        owner = duty.owner if assigned is None else assigned
        until = oldest + duty.review_within if duty.review_within else None
        if on_hold:
            more = Load(owner=owner, on_hold=number)
        else:
            more = Load(owner=owner, unreviewed=number, overdue=overdue, oldest=oldest, next_deadline=until)
        found[owner] = found.get(owner, Load(owner=owner)).with_all_of(more)
    named = {EVERY_OTHER, *(duty.owner for duty in by_kind.values())}
    return _bounded([*found.values(), *(Load(owner=name) for name in sorted(named - found.keys()))], named)


async def states(transaction: AsyncConnection, known: Iterable[str]) -> dict[tuple[str, str], int]:
    """Count all items by state and owner; every owner but the `known` ones is `OTHERS`.

    What is decided is nobody's any more: it is counted under no name, off an index, however much of it there is.
    """
    by_kind, told_apart = await _duties(transaction), set(known)
    counted = {(state.value, owner): 0 for state in WAITING for owner in told_apart}
    counted |= {(state.value, ""): 0 for state in ItemState}
    decided = sa.select(items.c.state, sa.func.count()).where(items.c.state.not_in(WAITING)).group_by(items.c.state)
    for state, number in (await transaction.execute(decided)).all():
        counted[state, ""] = number
    by = (items.c.state, items.c.kind, items.c.assigned)
    waiting = sa.select(*by, sa.func.count()).where(items.c.state.in_(WAITING)).group_by(*by)
    for state, kind, assigned, number in (await transaction.execute(waiting)).all():
        owner = by_kind.get(kind, by_kind[EVERY_OTHER]).owner if assigned is None else assigned
        place = (state, owner if owner in told_apart else OTHERS)
        counted[place] = counted.get(place, 0) + number
    return counted


async def _duties(transaction: AsyncConnection) -> dict[str, Duty]:
    rows = (await transaction.execute(sa.select(duties))).all()
    found = {row.kind: Duty(owner=row.owner, review_within=row.review_within) for row in rows}
    return {EVERY_OTHER: Duty(), **found}


def _bounded(found: Sequence[Load], named: Collection[str]) -> list[Load]:
    """Keep whom the policy names, then who has most; the rest is one."""
    first = sorted(found, key=lambda load: (load.owner != "", load.owner not in named, -load.unreviewed, load.owner))
    kept, rest = first[:MOST_OWNERS], first[MOST_OWNERS:]
    if rest:
        others = Load(owner=OTHERS)
        for load in rest:
            others = others.with_all_of(load)
        kept.append(others)
    return sorted(kept, key=lambda load: (-load.overdue, -load.unreviewed, load.owner))


def _earlier(one: float | None, other: float | None) -> float | None:
    return min((moment for moment in (one, other) if moment is not None), default=None)
