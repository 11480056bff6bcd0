"""What became of each item of an operation, read from the items and tickets themselves.

Owns the outcomes that people see. Nothing about an outcome is written down twice: whoever settles a replay, a confirm,
a report or a person, changes what is told here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.outcomes import TicketState
from gateway.station.holding import ItemState
from gateway.station.operations import Turn
from gateway.station.store import Store
from gateway.station.tables.items import items
from gateway.station.tables.operations import operation_items, operations
from gateway.station.tables.tickets import tickets

MAX_LISTED: Final = 1000


class Outcome(StrEnum):
    """What became of one item."""

    WAITING = "waiting"
    """Its turn has not come."""
    SKIPPED = "skipped"
    """`why` says for what reason."""
    UNCONFIRMED = "unconfirmed"
    """It was sent, and no confirm came; it is never sent again by itself."""
    PENDING = "pending"
    """It is with the fleet, and has not ended."""
    DONE = "done"
    QUARANTINED = "quarantined"
    """Its new generation has ended in quarantine, too."""
    DISCARDED = "discarded"
    """By this operation; or its new generation, by the policy of its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One item of an operation."""

    position: int
    ticket: str
    generation: int
    outcome: Outcome
    why: str | None
    at: float | None
    """When its turn was, Unix seconds."""


async def count(store: Store, name: str) -> dict[Outcome, int]:
    """Count the items of an operation by outcome; those that there are none of are there, too."""
    async with store.reading() as transaction:
        return await count_in(transaction, name)


async def count_in(transaction: AsyncConnection, name: str) -> dict[Outcome, int]:
    """Count in a transaction of the caller's."""
    told = sa.select(_OUTCOME.label("outcome")).select_from(_JOINED).where(operation_items.c.operation == name)
    query = told.subquery()
    rows = await transaction.execute(sa.select(query.c.outcome, sa.func.count()).group_by(query.c.outcome))
    return {**dict.fromkeys(Outcome, 0), **{Outcome(outcome): number for outcome, number in rows.all()}}


async def lines(
    store: Store, name: str, *, outcomes: Sequence[Outcome] = (), after: int = -1, most: int = MAX_LISTED
) -> list[Line]:
    """Return items of an operation in their order, those with a position beyond `after`."""
    names = ("position", "ticket", "generation", "why", "at")
    query = (
        sa.select(*(operation_items.c[one] for one in names), _OUTCOME.label("outcome"))
        .select_from(_JOINED)
        .where(operation_items.c.operation == name, operation_items.c.position > after)
        .order_by(operation_items.c.position)
        .limit(most)
    )
    if outcomes:
        query = query.where(_OUTCOME.in_([outcome.value for outcome in outcomes]))
    async with store.reading() as transaction:
        rows: Sequence[Any] = (await transaction.execute(query)).all()
    return [
        Line(
            position=row.position,
            ticket=row.ticket,
            generation=row.generation,
            outcome=Outcome(row.outcome),
            why=row.why,
            at=row.at,
        )
        for row in rows
    ]


def _outcome() -> sa.ColumnElement[str]:
    turn, held, stands = operation_items.c.state, items.c.state, tickets.c.state
    next_item = items.alias()
    again = (
        sa.select(next_item.c.ticket)
        .where(
            next_item.c.ticket == operation_items.c.ticket,
            next_item.c.generation == operation_items.c.generation + 1,
        )
        .exists()
    )
    return sa.case(
        (turn == Turn.WAITING.value, Outcome.WAITING.value),
        (turn == Turn.SKIPPED.value, Outcome.SKIPPED.value),
        (operations.c.act == "discard", Outcome.DISCARDED.value),
        (held == ItemState.REPLAYING.value, Outcome.UNCONFIRMED.value),
        (again, Outcome.QUARANTINED.value),
        (tickets.c.generation <= operation_items.c.generation, Outcome.PENDING.value),
        (stands == TicketState.DONE.value, Outcome.DONE.value),
        (stands == TicketState.QUARANTINED.value, Outcome.QUARANTINED.value),
        (stands == TicketState.DISCARDED.value, Outcome.DISCARDED.value),
        else_=Outcome.PENDING.value,
    )


_OUTCOME: Final = _outcome()
_JOINED: Final = (
    operation_items.join(operations, operations.c.id == operation_items.c.operation)
    .outerjoin(
        items,
        sa.and_(items.c.ticket == operation_items.c.ticket, items.c.generation == operation_items.c.generation),
    )
    .outerjoin(tickets, tickets.c.ticket == operation_items.c.ticket)
)
