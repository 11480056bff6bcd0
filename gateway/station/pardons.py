"""Attempts given back in bulk, after an incident that was not the items' doing.

Owns the selection and the mark on what is still on its way; what is in quarantine goes through the replay like every
item there. The fence of the nodes owns the table `starts`: of it only the mark is written here, and only where the
generation is still open. The node that claims a marked item next sends it on as its next generation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.outcomes import CHARGED, TicketState
from gateway.station import acts
from gateway.station.acts import Act
from gateway.station.decided import Decision
from gateway.station.holding import ItemState
from gateway.station.store import Store
from gateway.station.tables.items import items
from gateway.station.tables.reviews import holds
from gateway.station.tables.tickets import runs, tickets
from gateway.station.told_twice import is_told_once

STARTS: Final = sa.table("starts", *(sa.column(name) for name in ("ticket", "generation", "closed", "pardon")))
"""As much of the fence's table as is needed here."""
_BATCH: Final = 200
_IN_FLIGHT: Final = (TicketState.ACCEPTED, TicketState.RUNNING, TicketState.RETRYING)


class NoFence(Exception):
    """The store has no starts on record that could be marked; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which items: those with a charged run that all of this is true of."""

    kind: str | None = None
    outcomes: tuple[str, ...] = ()
    """Empty: any that is charged."""
    node: str | None = None
    since: float | None = None
    until: float | None = None
    """Unix seconds at which the run's end was reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One item that the selection found."""

    ticket: str
    generation: int
    kind: str
    state: str
    charged: int
    """Charged runs of this generation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """What was found, and what of it gets its attempts back: the rest had ended meanwhile."""

    found: list[Candidate]
    marked: list[Candidate]


@dataclass(frozen=True, slots=True, kw_only=True)
class Miscounted:
    """There are others by now than somebody agreed to, so nothing was changed."""

    expected: int
    found: int

    @property
    def sentence(self) -> str:
        """One sentence for a person."""
        return f"{self.expected:,} expected, {self.found:,} found: nothing was changed"


async def reset(store: Store, selection: Selection, decision: Decision, *, expect: int | None) -> Marked | Miscounted:
    """Give back what is still on its way, if that is as much as was expected; raises NoFence."""
    found = await in_flight(store, selection)
    if expect is not None and expect != len(found):
        return Miscounted(expected=expect, found=len(found))
    return Marked(found=found, marked=await mark(store, found, decision))


async def in_flight(store: Store, selection: Selection) -> list[Candidate]:
    """Return what is still on its way, by ticket; raises NoFence."""
    async with store.reading() as transaction:
        await _need_marks(transaction)
        open_starts = sa.and_(
            STARTS.c.ticket == tickets.c.ticket,
            STARTS.c.generation == tickets.c.generation,
            sa.not_(STARTS.c.closed),
            sa.func.coalesce(STARTS.c.pardon, -1) < STARTS.c.generation,
        )
        query = _counted(selection, tickets, tickets.c.state).where(
            tickets.c.state.in_(_IN_FLIGHT), sa.exists().select_from(STARTS).where(open_starts)
        )
        return [Candidate(**row) for row in (await transaction.execute(query)).mappings()]


async def in_quarantine(store: Store, selection: Selection) -> list[Candidate]:
    """Return what is held, by ticket."""
    query = _counted(selection, items, items.c.state).where(items.c.state == ItemState.HELD.value)
    async with store.reading() as transaction:
        return [Candidate(**row) for row in (await transaction.execute(query)).mappings()]


async def mark(store: Store, found: Sequence[Candidate], decision: Decision) -> list[Candidate]:
    """Mark what is still open, with a name and a reason; return what was marked."""
    marked: list[Candidate] = []
    for batch in _batches(found):
        async with store.writing() as transaction:
            for candidate in batch:
                if await _mark(transaction, candidate):
                    await _note(transaction, candidate, decision)
                    marked.append(candidate)
    return marked


async def _mark(transaction: AsyncConnection, candidate: Candidate) -> bool:
    still_open = sa.and_(
        STARTS.c.ticket == candidate.ticket, STARTS.c.generation == candidate.generation, sa.not_(STARTS.c.closed)
    )
    done = await transaction.execute(
        sa.update(STARTS).where(still_open, _is_free(STARTS.c.ticket)).values(pardon=candidate.generation)
    )
    return bool(done.rowcount)


async def _note(transaction: AsyncConnection, candidate: Candidate, decision: Decision) -> None:
    await acts.note(
        transaction,
        act=Act.RESET,
        by=decision.by,
        reason=decision.reason,
        ticket=candidate.ticket,
        generation=candidate.generation,
    )


async def _need_marks(transaction: AsyncConnection) -> None:
    def columns(connection: sa.Connection) -> set[str]:
        inspector = sa.inspect(connection)
        if not inspector.has_table(STARTS.name):
            return set()
        return {column["name"] for column in inspector.get_columns(STARTS.name)}

    there = await transaction.run_sync(columns)
    if not there:
        raise NoFence("no node has recorded a start in this store: is LAZARETTO_FENCE off, or is it another store?")
    if "pardon" not in there:
        raise NoFence("the nodes that use this store are of an earlier version, which knows no reset: renew them first")


def _counted(selection: Selection, table: sa.Table, state: sa.Column[Any]) -> sa.Select[Any]:
    """Select items of a table with the number of their charged runs that the selection is true of, one at least."""
    conditions = [
        runs.c.ticket == table.c.ticket,
        runs.c.generation == table.c.generation,
        runs.c.outcome.in_(selection.outcomes or sorted(CHARGED)),
        is_told_once(),
    ]
    if selection.node is not None:
        conditions.append(runs.c.node == selection.node)
    if selection.since is not None:
        conditions.append(runs.c.reported_at >= selection.since)
    if selection.until is not None:
        conditions.append(runs.c.reported_at <= selection.until)
    charged = sa.select(sa.func.count()).select_from(runs).where(*conditions).scalar_subquery()
    query = sa.select(table.c.ticket, table.c.generation, table.c.kind, state.label("state"), charged.label("charged"))
    if selection.kind is not None:
        query = query.where(table.c.kind == selection.kind)
    return query.where(charged > 0, _is_free(table.c.ticket)).order_by(table.c.ticket)


def _is_free(ticket: Any) -> sa.ColumnElement[bool]:
    """Whether nobody has the ticket wait: what is on hold gets nothing from anybody."""
    return sa.not_(sa.select(holds.c.ticket).where(holds.c.ticket == ticket).exists())


def _batches(found: Sequence[Candidate]) -> Iterator[Sequence[Candidate]]:
    for first in range(0, len(found), _BATCH):
        yield found[first : first + _BATCH]
