"""A selection looked at before anything is done with it: which items, and why some of them cannot be done.

Owns the dry run. What it says of an item is true at that moment; the executor asks again when the item's turn comes.
Reads page by page, and of bodies only those that never passed the door's checks.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Envelope
from gateway.station import doubts, holds, item_rows, replays, successor
from gateway.station.holding import ItemState
from gateway.station.operations import MAX_ITEMS, Candidate, Kind
from gateway.station.selection import Filter, where
from gateway.station.store import Store
from gateway.station.tables.items import items
from gateway.station.tables.operations import replays as sent

_PAGE: Final = 500
Check = Callable[[Envelope], Awaitable[str | None]]
"""Says why the door would refuse what came past it; None: it would not."""
_NO_GENERATION: Final = -1
"""Stands in the row of a ticket that was never held."""


class TooMany(Exception):
    """The filter means more items than one operation may have; the text says so."""


def meant(act: Kind, chosen: Filter) -> Filter:
    """Return the filter with what an act can be about: what is in doubt is resumed, and what is held anything else."""
    if act is Kind.RESUME:
        return replace(chosen, states=(ItemState.REPLAYING,), unconfirmed=True)
    return replace(chosen, states=(ItemState.HELD,))


async def find(
    store: Store, act: Kind, chosen: Filter, *, limit: int = replays.UNLIMITED, check: Check | None = None
) -> list[Candidate]:
    """Return the items that a filter means, oldest first; raises TooMany, VocabularyError.

    The filter has to be as `meant` returns it.
    Tickets that were named one by one are all there, also those that nothing can be done with.
    """
    found: list[Candidate] = []
    last: Any = None
    wanted = where(chosen) if not chosen.tickets else [items.c.ticket.in_(chosen.tickets), _is_newest()]
    columns = [column for column in items.c if column.name not in {"body", "headers"}]
    while True:
        query = sa.select(*columns).where(*wanted).order_by(items.c.arrived_at, items.c.ticket).limit(_PAGE)
        if last is not None:
            query = query.where(sa.tuple_(items.c.arrived_at, items.c.ticket) > sa.tuple_(last.arrived_at, last.ticket))
        async with store.reading() as transaction:
            rows = (await transaction.execute(query)).all()
            tickets = [row.ticket for row in rows]
            replayed, waiting = await _replayed(transaction, tickets), await holds.find_each(transaction, tickets)
            begun = await _begun(transaction, tickets) if act is Kind.RESUME else {}
        for row in rows:
            if row.ticket in waiting:
                why: str | None = waiting[row.ticket].sentence
            elif act is Kind.RESUME:
                why = _why_not_resumed(row, begun.get((row.ticket, row.generation)))
            else:
                times = replayed.get(row.ticket, 0)
                why = await _why_not(store, act, row, replayed=times, limit=limit, check=check)
            found.append(Candidate(ticket=row.ticket, generation=row.generation, why=why))
        if len(found) > MAX_ITEMS:
            raise TooMany(f"more than {MAX_ITEMS} items: narrow it down")
        if len(rows) < _PAGE:
            break
        last = rows[-1]
    missing = set(chosen.tickets) - {one.ticket for one in found}
    never = "it was never in quarantine here"
    return found + [Candidate(ticket=one, generation=_NO_GENERATION, why=never) for one in sorted(missing)]


async def _why_not(store: Store, act: Kind, row: Any, *, replayed: int, limit: int, check: Check | None) -> str | None:
    if row.state != ItemState.HELD:
        return item_rows.taken(row).sentence
    if act is Kind.DISCARD:
        return None
    barred = replays.bar(row, replayed, limit)
    if barred is not None:
        return barred.why
    try:
        envelope = successor.next_generation(row, b"")
        envelopes.encode(envelope)
    except Exception as error:  # noqa: BLE001 - what one message holds is said of that one
        return f"its message cannot be made again: {type(error).__name__}: {error}"
    if envelope.admission is not None or check is None:
        return None
    # It came past the door: the consumer will examine it before its handler starts, and refuse what the door would.
    async with store.reading() as transaction:
        body = await transaction.scalar(sa.select(items.c.body).filter_by(ticket=row.ticket, generation=row.generation))
    return await check(replace(envelope, body=bytes(body or b"")))


def _why_not_resumed(row: Any, told: Any) -> str | None:
    if row.state != ItemState.REPLAYING:
        return item_rows.taken(row).sentence
    sending = None if told is None else doubts.still_sending(told, time.time())
    return None if sending is None else sending.why


async def _begun(transaction: AsyncConnection, tickets: Sequence[str]) -> dict[tuple[str, int], Any]:
    columns = (sent.c.ticket, sent.c.generation, sent.c.begun_at, sent.c.in_doubt)
    rows = (await transaction.execute(sa.select(*columns).where(sent.c.ticket.in_(tickets)))).all()
    return {(row.ticket, row.generation): row for row in rows}


async def _replayed(transaction: AsyncConnection, tickets: Sequence[str]) -> dict[str, int]:
    counting = sa.select(sent.c.ticket, sa.func.count()).where(sent.c.ticket.in_(tickets)).group_by(sent.c.ticket)
    return {row[0]: row[1] for row in (await transaction.execute(counting)).all()}


def _is_newest() -> sa.ColumnElement[bool]:
    later = items.alias()
    found = sa.select(later.c.ticket).where(later.c.ticket == items.c.ticket, later.c.generation > items.c.generation)
    return sa.not_(found.exists())
