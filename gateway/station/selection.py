"""Which items are meant: one filter for lists, pages, exports and operations.

Owns its names, which command line, JSON API and desk share, and its meaning as SQL. A filter that names nothing means
every item in its states.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import sqlalchemy as sa

from gateway.contract.outcomes import Outcome
from gateway.station import doubts, owners
from gateway.station.holding import ItemState
from gateway.station.storable import document
from gateway.station.tables.items import items
from gateway.station.tables.tickets import FELL_SHORT, runs, tickets

WAITING: Final = (ItemState.HELD, ItemState.REPLAYING)
DECIDED: Final = (ItemState.REPLAYED, ItemState.DISCARDED)
MAX_TEXT: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """All of this has to be true of an item; None is anything. Of several values one has to be."""

    states: tuple[ItemState, ...] = (ItemState.HELD,)
    kinds: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    """Of any of its runs in this generation."""
    signal: int | None = None
    """That killed the worker of one of these runs."""
    build: str | None = None
    """Handler build of one of these runs."""
    clients: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    """Unix seconds between which it arrived."""
    text: str | None = None
    """Somewhere in its ticket id or in why it is here; case is ignored for letters of ASCII."""
    tickets: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    """Whose it is; the empty name is nobody's."""
    groups: tuple[str, ...] = ()
    """Ids of causes."""
    on_hold: bool | None = None
    overdue: bool | None = None
    """Whether it should have been decided by now."""
    unconfirmed: bool | None = None
    """Whether it was sent, and nobody hears of the confirm any more."""

    def document(self) -> dict[str, Any]:
        """Return what it names, as JSON has it."""
        return {name: value for name, value in asdict(self).items() if value not in (None, ())}


def where(chosen: Filter) -> list[sa.ColumnElement[bool]]:
    """Return the conditions on `items`."""
    return [items.c.state.in_([state.value for state in chosen.states]), *narrowed(chosen)]


def narrowed(chosen: Filter) -> list[sa.ColumnElement[bool]]:
    """Return the conditions beside the states, for who asks for one state at a time."""
    found: list[sa.ColumnElement[bool]] = []
    if chosen.kinds:
        found.append(items.c.kind.in_(chosen.kinds))
    if chosen.reasons:
        found.append(items.c.reason.in_(chosen.reasons))
    if chosen.tickets:
        found.append(items.c.ticket.in_(chosen.tickets))
    if chosen.since is not None:
        found.append(items.c.arrived_at >= chosen.since)
    if chosen.until is not None:
        found.append(items.c.arrived_at <= chosen.until)
    if chosen.outcomes:
        found.append(_ended_as(chosen.outcomes))
    if chosen.signal is not None:
        found.append(_a_run(_died_of(chosen.signal)))
    if chosen.build is not None:
        found.append(_a_run(_says("build", chosen.build)))
    if chosen.clients:
        # Not by a look at each item's ticket: of a client that has none there would be one for every item.
        found.append(items.c.ticket.in_(sa.select(tickets.c.ticket).where(tickets.c.client.in_(chosen.clients))))
    if chosen.text is not None:
        found.append(_mentions(chosen.text))
    if chosen.unconfirmed is not None:
        doubtful = doubts.is_unconfirmed(time.time())
        found.append(doubtful if chosen.unconfirmed else sa.not_(doubtful))
    return found + _about_its_review(chosen)


def _about_its_review(chosen: Filter) -> list[sa.ColumnElement[bool]]:
    found: list[sa.ColumnElement[bool]] = []
    if chosen.owners:
        found.append(owners.owner().in_(chosen.owners))
    if chosen.groups:
        found.append(items.c.cause.in_(chosen.groups))
    if chosen.on_hold is not None:
        found.append(owners.is_on_hold() if chosen.on_hold else sa.not_(owners.is_on_hold()))
    if chosen.overdue is not None:
        late = sa.func.coalesce(owners.is_overdue(time.time()), sa.false())
        found.append(late if chosen.overdue else sa.not_(late))
    return found


def _ended_as(outcomes: Sequence[str]) -> sa.ColumnElement[bool]:
    if Outcome.SUCCEEDED in outcomes:
        return _a_run(runs.c.outcome.in_(outcomes))
    # By way of the index over these runs: of an outcome that is rare, each item's runs would be looked at in vain.
    told = sa.select(runs.c.ticket, runs.c.generation).where(FELL_SHORT, runs.c.outcome.in_(outcomes))
    return sa.tuple_(items.c.ticket, items.c.generation).in_(told)


def _a_run(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    same = sa.and_(runs.c.ticket == items.c.ticket, runs.c.generation == items.c.generation)
    return sa.select(runs.c.ticket).where(same, condition).exists()


def _died_of(signal: int) -> sa.ColumnElement[bool]:
    # As `storable.document` writes it; within a text of that document its quotes would be escaped.
    ends = [runs.c.evidence.contains(f'"signal":{signal}{end}', autoescape=True) for end in (",", "}")]
    return sa.or_(*ends, _says("code", f"signal:{signal}"))


def _says(name: str, value: str) -> sa.ColumnElement[bool]:
    return runs.c.evidence.contains(f'"{name}":{document(value)}', autoescape=True)


def _mentions(text: str) -> sa.ColumnElement[bool]:
    return sa.or_(*(column.icontains(text, autoescape=True) for column in (items.c.ticket, items.c.detail)))
