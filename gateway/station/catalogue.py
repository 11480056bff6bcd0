"""What the station holds, searched: any page of any selection of items, in the time it takes to read that page.

Owns the order of lists of items and what the desk narrows them by. Never writes, never counts further than people
read, never reads a body: pages are cut by the last item of the one before, so that page 900 costs what page 1 costs.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.station.holding import ItemState
from gateway.station.selection import WAITING, Filter, narrowed
from gateway.station.store import Store
from gateway.station.tables.items import items
from gateway.station.tables.tickets import tickets

PAGE: Final = 50
MOST_COUNTED: Final = 10_000
"""Beyond it, a selection has `more than` so many items."""
_MOST_CHOICES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which items are meant; None is any. Times in Unix seconds."""

    states: Sequence[ItemState] = WAITING
    kind: str | None = None
    reason: str | None = None
    client: str | None = None
    outcome: str | None = None
    """How a run of the generation ended."""
    signal: int | None = None
    """What a worker of the generation was killed by."""
    text: str | None = None
    """Occurs in the ticket's id or in why it is here."""
    since: float | None = None
    until: float | None = None
    owner: str | None = None
    """Whose it is; empty is nobody's in particular."""
    group: str | None = None
    """Id of what it died of."""
    overdue: bool | None = None
    on_hold: bool | None = None
    unconfirmed: bool | None = None
    """Whether it was sent, and nobody hears of the confirm any more."""

    def filter(self) -> Filter:
        """Return it as what an operation, an export or a program is told: it means the same items everywhere."""
        return Filter(
            states=tuple(self.states),
            kinds=_some(self.kind),
            reasons=_some(self.reason),
            clients=_some(self.client),
            outcomes=_some(self.outcome),
            signal=self.signal,
            text=self.text,
            owners=_some(self.owner),
            groups=_some(self.group),
            overdue=self.overdue,
            on_hold=self.on_hold,
            unconfirmed=self.unconfirmed,
            since=self.since,
            until=self.until,
        )


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Mark:
    """The place of an item in a list."""

    at: float
    ticket: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a list."""

    mark: Mark
    kind: str
    state: ItemState
    reason: str
    detail: str | None
    attempts: int
    crashes: int
    interruptions: int
    client: str | None
    decided_at: float | None
    decided_by: str | None

    @property
    def ticket(self) -> str:
        """Its ticket's id."""
        return self.mark.ticket

    @property
    def generation(self) -> int:
        """Of how many replays it came."""
        return self.mark.generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some entries in order, and whether there are more on either side."""

    entries: Sequence[Entry]
    before: bool
    after: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How many there are, and whether that is all of them."""

    number: int
    exact: bool


async def find(
    store: Store,
    selection: Selection,
    *,
    newest_first: bool = False,
    after: Mark | None = None,
    before: Mark | None = None,
    limit: int = PAGE,
) -> Page:
    """Return one page: the first, or what lies after or before a mark."""
    backwards = before is not None
    descending = newest_first is not backwards
    mark = before if backwards else after
    async with store.reading() as transaction:
        # One state at a time, since an index is in order of arrival only within a state.
        found = [
            await _entries(transaction, selection, state, mark, descending=descending, limit=limit + 1)
            for state in selection.states
        ]
    merged = list(heapq.merge(*found, key=lambda entry: entry.mark, reverse=descending))
    more, kept = len(merged) > limit, merged[:limit]
    if backwards:
        return Page(entries=kept[::-1], before=more, after=True)
    return Page(entries=kept, before=after is not None, after=more)


async def count(store: Store, selection: Selection) -> Counted:
    """Count a selection, as far as `MOST_COUNTED`."""
    some = _matching(selection, items.c.state.in_(list(selection.states)), sa.literal(1)).limit(MOST_COUNTED + 1)
    async with store.reading() as transaction:
        number = await transaction.scalar(sa.select(sa.func.count()).select_from(some.subquery())) or 0
    return Counted(number=min(number, MOST_COUNTED), exact=number <= MOST_COUNTED)


async def choices(store: Store) -> dict[str, list[str]]:
    """Return what of kinds and reasons occurs among what waits, to choose from."""
    waiting = items.c.state.in_(list(WAITING))
    async with store.reading() as transaction:
        return {
            name: list(
                await transaction.scalars(
                    sa.select(items.c[name]).where(waiting).distinct().order_by(items.c[name]).limit(_MOST_CHOICES)
                )
            )
            for name in ("kind", "reason")
        }


async def _entries(
    transaction: AsyncConnection,
    selection: Selection,
    state: ItemState,
    mark: Mark | None,
    *,
    descending: bool,
    limit: int,
) -> list[Entry]:
    names = ("kind", "state", "reason", "detail", "attempts", "crashes", "interruptions", "decided_at", "decided_by")
    place = (items.c.arrived_at, items.c.ticket, items.c.generation)
    columns = [*place, *(items.c[name] for name in names)]
    query = _matching(selection, items.c.state == state.value, *columns)
    if mark is not None:
        here, there = sa.tuple_(*place), sa.tuple_(sa.literal(mark.at), sa.literal(mark.ticket), mark.generation)
        query = query.where(here < there if descending else here > there)
        # Said again, so that the index alone finds where the page begins.
        query = query.where(place[0] <= mark.at if descending else place[0] >= mark.at)
    query = query.order_by(*(column.desc() if descending else column.asc() for column in place)).limit(limit)
    page = query.subquery()
    # Joined to the page alone, not to all that was searched for it.
    joined = sa.select(page, tickets.c.client).outerjoin(tickets, tickets.c.ticket == page.c.ticket)
    rows = (await transaction.execute(joined)).all()
    return sorted(map(_entry, rows), key=lambda entry: entry.mark, reverse=descending)


def _matching(selection: Selection, state: sa.ColumnElement[bool], *columns: Any) -> sa.Select[Any]:
    return sa.select(*columns).select_from(items).where(state, *narrowed(selection.filter()))


def _some(value: str | None) -> tuple[str, ...]:
    return () if value is None else (value,)


def _entry(row: Any) -> Entry:
    return Entry(
        mark=Mark(at=row.arrived_at, ticket=row.ticket, generation=row.generation),
        kind=row.kind,
        state=ItemState(row.state),
        reason=row.reason,
        detail=row.detail,
        attempts=row.attempts,
        crashes=row.crashes,
        interruptions=row.interruptions,
        client=row.client,
        decided_at=row.decided_at,
        decided_by=row.decided_by,
    )
