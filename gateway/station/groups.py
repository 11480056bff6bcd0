"""Items by what they died of: how many, since when, under which builds, and some of them; questions only.

Owns the queries over causes. Bounded: at most `MAX_LISTED` groups, and of each a few builds and tickets.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.station.selection import WAITING, Filter, where
from gateway.station.storable import parsed
from gateway.station.store import Store
from gateway.station.tables.audit import audit
from gateway.station.tables.items import items
from gateway.station.tables.reviews import causes, notes

MAX_LISTED: Final = 200
MOST_BUILDS: Final = 10
MOST_SAMPLES: Final = 5
_MOST_NOTES: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Items of one cause. Moments in Unix seconds."""

    id: str
    kind: str
    outcome: str
    what: str
    frames: list[str]
    items: int
    """Of those that were asked for."""
    waiting: int
    """Of these, the ones that nobody has decided."""
    first_at: float
    last_at: float
    builds: dict[str, int]
    """Handler builds of their last runs, most items first."""
    tickets: list[str]
    """Some of them, newest first."""

    @property
    def title(self) -> str:
        """Kind, outcome and place in a few words."""
        told = f"{self.outcome}: {self.what}" if self.what else self.outcome
        where_to = f" in {self.frames[0]}" if self.frames else ""
        return f"{self.kind}, {told}{where_to}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What somebody wrote down."""

    at: float
    by: str
    text: str
    ticket: str | None
    group: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What somebody did about a group as a whole."""

    at: float
    actor: str
    act: str
    reason: str


async def find(store: Store, chosen: Filter) -> list[Group]:
    """Return the groups of the items that a filter means: those with most undecided items first."""
    async with store.reading() as transaction:
        return await _groups(transaction, [*where(chosen), items.c.cause.is_not(None)])


async def find_one(store: Store, group: str) -> Group | None:
    """Return all of one group, decided or not; None where no item ever was in it."""
    async with store.reading() as transaction:
        return next(iter(await _groups(transaction, [items.c.cause == group])), None)


async def relatives(store: Store, group: Group) -> list[str]:
    """Return the ids of groups that died of the same in another kind, or with another outcome."""
    same = sa.and_(causes.c.what == group.what, causes.c.id != group.id)
    async with store.reading() as transaction:
        rows = (await transaction.execute(sa.select(causes.c.id, causes.c.frames).where(same).limit(MAX_LISTED))).all()
    return sorted(row.id for row in rows if (parsed(row.frames) or [])[:1] == group.frames[:1] and group.what)


async def find_notes(store: Store, *, ticket: str | None = None, group: str | None = None) -> list[Note]:
    """Return what was written down about a ticket, about a group, or about both; oldest first, the newest 200."""
    about = []
    if ticket is not None:
        about.append(notes.c.ticket == ticket)
    if group is not None:
        about.append(notes.c.cause == group)
    query = sa.select(notes).where(sa.or_(sa.false(), *about)).order_by(notes.c.id.desc()).limit(_MOST_NOTES)
    async with store.reading() as transaction:
        rows = (await transaction.execute(query)).all()
    return [Note(at=row.at, by=row.by, text=row.text, ticket=row.ticket, group=row.cause) for row in rows[::-1]]


async def find_acts(store: Store, group: str) -> list[Act]:
    """Return what people did about a group as a whole, oldest first."""
    query = sa.select(audit).where(audit.c.cause == group).order_by(audit.c.id)
    async with store.reading() as transaction:
        rows = (await transaction.execute(query)).all()
    return [Act(at=row.at, actor=row.actor, act=row.act, reason=row.reason) for row in rows]


async def _groups(transaction: AsyncConnection, wanted: Sequence[sa.ColumnElement[bool]]) -> list[Group]:
    waits = sa.func.sum(sa.case((items.c.state.in_([state.value for state in WAITING]), 1), else_=0))
    first, last, number = sa.func.min(items.c.arrived_at), sa.func.max(items.c.arrived_at), sa.func.count()
    counting = (
        sa.select(
            items.c.cause, number.label("items"), waits.label("waiting"), first.label("first"), last.label("last")
        )
        .where(*wanted)
        .group_by(items.c.cause)
        .order_by(waits.desc(), last.desc(), items.c.cause)
        .limit(MAX_LISTED)
    )
    counted = (await transaction.execute(counting)).all()
    found = [row.cause for row in counted]
    if not found:
        return []
    told = {row.id: row for row in (await transaction.execute(sa.select(causes).where(causes.c.id.in_(found)))).all()}
    theirs = [*wanted, items.c.cause.in_(found)]
    builds = await _builds(transaction, theirs)
    samples = await _samples(transaction, theirs)
    return [
        Group(
            id=row.cause,
            kind=told[row.cause].kind,
            outcome=told[row.cause].outcome,
            what=told[row.cause].what,
            frames=parsed(told[row.cause].frames),
            items=row.items,
            waiting=row.waiting,
            first_at=row.first,
            last_at=row.last,
            builds=builds.get(row.cause, {}),
            tickets=samples.get(row.cause, []),
        )
        for row in counted
    ]


async def _builds(transaction: AsyncConnection, wanted: Sequence[Any]) -> dict[str, dict[str, int]]:
    by, number = (items.c.cause, items.c.build), sa.func.count()
    ranked = (
        sa.select(*by, number.label("items"), _rank(items.c.cause, number.desc(), items.c.build))
        .where(*wanted, items.c.build.is_not(None))
        .group_by(*by)
        .subquery()
    )
    query = sa.select(ranked).where(ranked.c.rank <= MOST_BUILDS).order_by(ranked.c.rank)
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for row in (await transaction.execute(query)).all():
        found[row.cause][row.build] = row.items
    return found


async def _samples(transaction: AsyncConnection, wanted: Sequence[Any]) -> dict[str, list[str]]:
    rank = _rank(items.c.cause, items.c.arrived_at.desc(), items.c.ticket)
    ranked = sa.select(items.c.cause, items.c.ticket, rank).where(*wanted).subquery()
    query = sa.select(ranked).where(ranked.c.rank <= MOST_SAMPLES).order_by(ranked.c.rank)
    found: dict[str, list[str]] = defaultdict(list)
    for row in (await transaction.execute(query)).all():
        if row.ticket not in found[row.cause]:
            found[row.cause].append(row.ticket)
    return found


def _rank(within: Any, *order: Any) -> Any:
    return sa.func.row_number().over(partition_by=within, order_by=order).label("rank")
