"""What a reviewer decides about an item beside a replay: discard it, or restore what was discarded.

Owns the restore window. Two reviewers cannot both win: the first one's transaction takes the item, the second one is
told who did and when. What is sent again: `gateway.station.replays`.
"""

import time
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.outcomes import Stamp, Standing, TicketState
from gateway.station import acts, escalations, holds, item_rows, wording
from gateway.station.acts import Act
from gateway.station.decided import Bar, Barred, Decision, DiscardCode, Done, Taken, Unknown
from gateway.station.holding import ItemState
from gateway.station.store import Store
from gateway.station.tables.tickets import tickets

CLOSED: Final = 2**31 - 1
"""Attempt number under which a discard is recorded: greater than any report that may still be on its way."""


async def discard(
    store: Store,
    ticket: str,
    decision: Decision,
    code: DiscardCode = DiscardCode.OTHER,
    *,
    generation: int | None = None,
) -> Done | Unknown | Taken | Barred:
    """End an item for good, with a reason; its row, body and history stay.

    `generation` is the one that the reviewer saw.
    """
    async with store.writing() as transaction:
        return await discard_in(transaction, ticket, decision, code, generation=generation)


async def discard_in(
    transaction: AsyncConnection,
    ticket: str,
    decision: Decision,
    code: DiscardCode,
    *,
    generation: int | None = None,
    operation: str | None = None,
) -> Done | Unknown | Taken | Barred:
    """Discard in a transaction of the caller's."""
    row = await item_rows.newest(transaction, ticket)
    if row is None:
        return Unknown(ticket=ticket)
    if row.state != ItemState.HELD or generation not in (None, row.generation):
        return await item_rows.gone(transaction, row, generation)
    if (hold := await holds.find(transaction, ticket)) is not None:
        return hold.bar
    now = time.time()
    await item_rows.decide(transaction, row, ItemState.DISCARDED, decision, now)
    await transaction.execute(item_rows.update(row).values(decision_code=code.value))
    await _note(transaction, row, decision, Act.DISCARD, code=code, operation=operation)
    await _close(transaction, row, TicketState.DISCARDED, now, detail=decision.reason)
    await item_rows.resolve(transaction, row, now)
    return Done(ticket=ticket, generation=row.generation)


async def restore(store: Store, ticket: str, decision: Decision, *, window: float) -> Done | Unknown | Taken | Barred:
    """Hold again what was discarded within the last `window` seconds."""
    async with store.writing() as transaction:
        row = await item_rows.newest(transaction, ticket)
        if row is None:
            return Unknown(ticket=ticket)
        if row.state != ItemState.DISCARDED:
            return item_rows.taken(row)
        now = time.time()
        if now - row.decided_at > window:
            last = wording.clock(row.decided_at + window)
            told = f"it was discarded by {row.decided_by} at {wording.clock(row.decided_at)}"
            why = f"{told} and could be restored until {last}"
            return Barred(bar=Bar.WINDOW_OVER, why=why)
        if row.removed_at is not None:
            why = f"its body was removed at {wording.clock(row.removed_at)} (LAZARETTO_ITEM_RETENTION)"
            return Barred(bar=Bar.CONTENTS_REMOVED, why=why)
        await item_rows.hold(transaction, row)
        await escalations.owe_again(transaction, ticket, row.generation, now)
        await _note(transaction, row, decision, Act.RESTORE)
        await _close(transaction, row, TicketState.QUARANTINED, now, detail=row.reason)
        return Done(ticket=ticket, generation=row.generation)


async def _close(transaction: AsyncConnection, row: Any, state: TicketState, now: float, *, detail: str) -> None:
    """Report a state that nothing still on its way can change: each such report is later than the one before."""
    query = sa.select(tickets.c.generation, tickets.c.attempt, tickets.c.interruptions).filter_by(ticket=row.ticket)
    was = (await transaction.execute(query)).one_or_none()
    times = 0
    if was is not None and (was.generation, was.attempt) == (row.generation, CLOSED):
        times = was.interruptions + 1
    stamp = Stamp(generation=row.generation, attempt=CLOSED, interruptions=times)
    standing = Standing(stamp=stamp, state=state)
    await item_rows.stand(transaction, row, standing, attempts=row.attempts, now=now, detail=detail)


async def _note(
    transaction: AsyncConnection,
    row: Any,
    decision: Decision,
    act: Act,
    *,
    code: DiscardCode | None = None,
    operation: str | None = None,
) -> None:
    await acts.note(
        transaction,
        act=act,
        by=decision.by,
        reason=decision.reason,
        ticket=row.ticket,
        generation=row.generation,
        code=None if code is None else code.value,
        operation=operation,
    )
