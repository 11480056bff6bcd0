"""What is over, and may go: one rule for each sort of row, as the statements that remove some of it.

Owns the rules. Nothing that somebody still has to look at, that is owed to anybody or in force ever goes (Q9): not a
ticket that has not ended or was ever held, not a callback or an alert that nobody took, not a refusal with a live pass.
What counters are told from is added to `tallies` in the same transaction. Decides no time.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.station import reminders, tallying
from gateway.station.holding import AlertEvent, ItemState
from gateway.station.operations import State
from gateway.station.retention import DECIDED, ENDED
from gateway.station.standings import insert
from gateway.station.tables.alerts import notices
from gateway.station.tables.callbacks import callbacks
from gateway.station.tables.items import items
from gateway.station.tables.operations import operation_items, operations
from gateway.station.tables.refusals import passes, refusal_counts, refusal_facts, refusals
from gateway.station.tables.reviews import holds
from gateway.station.tables.tickets import runs, tickets

_OPERATIONS: Final = 50
"""Of which lines go at a time."""

Remove = Callable[[AsyncConnection, float, float, int], Awaitable[int]]
"""Within a transaction: remove what was over at a moment (Unix seconds; then the present one), so many at the most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How one sort of row goes."""

    keep: float
    """Seconds after its end; 0: for ever."""
    remove: Remove


async def remove_tickets(transaction: AsyncConnection, before: float, _: float, most: int) -> int:
    """Remove tickets that ended well, with their runs; what was ever held keeps its row beside its tombstone."""
    held = sa.exists().where(items.c.ticket == tickets.c.ticket)
    open_callback = sa.and_(callbacks.c.sent_at.is_(None), callbacks.c.dead_at.is_(None))
    owed = sa.exists().where(callbacks.c.ticket == tickets.c.ticket, open_callback)
    waits = sa.exists().where(holds.c.ticket == tickets.c.ticket)
    over = (tickets.c.updated_at <= before, tickets.c.state.in_(ENDED), sa.not_(held), sa.not_(owed), sa.not_(waits))
    query = sa.select(tickets.c.ticket).where(*over).order_by(tickets.c.updated_at).limit(most)
    found = (await transaction.scalars(query.with_for_update(skip_locked=True))).all()
    await _delete(transaction, runs, runs.c.ticket.in_(found))
    return await _delete(transaction, tickets, tickets.c.ticket.in_(found))


async def remove_callbacks(transaction: AsyncConnection, before: float, _: float, most: int) -> int:
    """Remove what clients were told of tickets that are gone; the row of any other keeps it from being told twice."""
    there = sa.exists().where(tickets.c.ticket == callbacks.c.ticket)
    query = sa.select(callbacks.c.id, callbacks.c.tries).where(callbacks.c.sent_at <= before, sa.not_(there))
    found = (await transaction.execute(query.order_by(callbacks.c.sent_at).limit(most))).all()
    failed = sum(row.tries - 1 for row in found)
    await tallying.add(transaction, tallying.CALLBACKS, {"sent": len(found), "failed": failed})
    return await _delete(transaction, callbacks, callbacks.c.id.in_([row.id for row in found]))


async def remove_refusals(transaction: AsyncConnection, before: float, now: float, most: int) -> int:
    """Remove refusals, but for those of which a pass is in force."""
    in_force = sa.exists().where(passes.c.refusal == refusals.c.id, passes.c.expires_at > now)
    query = sa.select(refusals.c.id).where(refusals.c.at <= before, sa.not_(in_force))
    found = (await transaction.scalars(query.order_by(refusals.c.at).limit(most))).all()
    await _delete(transaction, refusal_facts, refusal_facts.c.refusal.in_(found))
    return await _delete(transaction, refusals, refusals.c.id.in_(found))


async def remove_counts(transaction: AsyncConnection, before: float, _: float, most: int) -> int:
    """Put the counts of single minutes together: how many there were by each rule stays, in minute 0."""
    query = sa.select(refusal_counts).where(refusal_counts.c.minute <= before, refusal_counts.c.minute > 0)
    found = (await transaction.execute(query.order_by(refusal_counts.c.minute).limit(most))).all()
    together: dict[str, int] = {}
    for row in found:
        together[row.rule] = together.get(row.rule, 0) + row.number
    statement = insert(transaction.dialect.name, refusal_counts)
    raised = {"number": refusal_counts.c.number + statement.excluded.number}
    statement = statement.on_conflict_do_update(index_elements=["rule", "minute"], set_=raised)
    for rule, number in sorted(together.items()):
        await transaction.execute(statement, {"rule": rule, "minute": 0, "number": number})
    keys = sa.tuple_(refusal_counts.c.rule, refusal_counts.c.minute)
    return await _delete(transaction, refusal_counts, keys.in_([(row.rule, row.minute) for row in found]))


async def remove_passes(transaction: AsyncConnection, before: float, _: float, most: int) -> int:
    """Remove passes that have expired; who gave and who used them stands in the audit."""
    query = sa.select(passes.c.id).where(passes.c.expires_at <= before).order_by(passes.c.expires_at).limit(most)
    return await _delete(transaction, passes, passes.c.id.in_((await transaction.scalars(query)).all()))


async def remove_notices(transaction: AsyncConnection, before: float, _: float, most: int) -> int:
    """Remove alerts that are about no item's arrival or end, once every channel has had its own, or is
    configured no more.

    A reminder of what is still undecided stays: it keeps the next one from being sent.
    """
    which = (notices.c.event, notices.c.subject, notices.c.window)
    over = sa.func.coalesce(notices.c.sent_at, notices.c.retired_at)
    all_over = sa.func.count() == sa.func.count(over)
    undecided = sa.exists().where(
        items.c.state.not_in(DECIDED), notices.c.subject == reminders.subject(items.c.ticket, items.c.generation)
    )
    reminds = sa.and_(notices.c.event == AlertEvent.REVIEW_OVERDUE.value, undecided)
    query = (
        sa.select(*which)
        .where(sa.not_(reminds))
        .group_by(*which)
        .having(all_over, sa.func.max(over) <= before)
        .limit(most)
    )
    found = [tuple(row) for row in await transaction.execute(query)]
    surged: dict[str, int] = {}
    for event, subject, _window in found:
        if event == AlertEvent.REFUSALS_SURGED.value:
            surged[subject] = surged.get(subject, 0) + 1
    await tallying.add(transaction, tallying.SURGES, surged)
    await _delete(transaction, notices, sa.tuple_(*which).in_(found))
    return len(found)


async def remove_lines(transaction: AsyncConnection, before: float, _: float, most: int) -> int:
    """Remove what operations that are over say of each item; what became of it, the item and the audit tell."""
    over = (await transaction.scalars(_over(before).limit(_OPERATIONS).with_for_update(skip_locked=True))).all()
    keys = sa.tuple_(operation_items.c.operation, operation_items.c.position)
    query = sa.select(operation_items.c.operation, operation_items.c.position)
    found = await transaction.execute(query.where(operation_items.c.operation.in_(over)).limit(most))
    return await _delete(transaction, operation_items, keys.in_([tuple(row) for row in found]))


async def remove_operations(transaction: AsyncConnection, before: float, _: float, most: int) -> int:
    """Remove operations that are over and say nothing of any item more."""
    has_lines = sa.exists().where(operation_items.c.operation == operations.c.id)
    query = _over(before).where(sa.not_(has_lines)).limit(most).with_for_update(skip_locked=True)
    return await _delete(transaction, operations, operations.c.id.in_((await transaction.scalars(query)).all()))


def _over(before: float) -> sa.Select[tuple[str]]:
    """Select operations that ended, or were stopped, so long ago: none that halted, or has an item in doubt."""
    in_doubt = (
        sa.select(operation_items.c.position)
        .join(
            items,
            sa.and_(items.c.ticket == operation_items.c.ticket, items.c.generation == operation_items.c.generation),
        )
        .where(operation_items.c.operation == operations.c.id, items.c.state == ItemState.REPLAYING.value)
        .exists()
    )
    states = [State.ENDED.value, State.STOPPED.value]
    over = (operations.c.state.in_(states), operations.c.ended_at <= before, sa.not_(in_doubt))
    return sa.select(operations.c.id).where(*over).order_by(operations.c.ended_at)


async def _delete(transaction: AsyncConnection, table: sa.Table, which: Any) -> int:
    gone = (await transaction.execute(sa.delete(table).where(which))).rowcount
    await tallying.add(transaction, tallying.REMOVED, {table.name: gone})
    return gone
