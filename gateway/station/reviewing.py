"""What reviewers do beside deciding: give an item to somebody, have a ticket wait, write something down.

Owns the tables `holds` and `notes` and the column `assigned`. Every act has a name and a reason, is a compare-and-set
under the lock of its ticket, and stands in the audit log.
"""

import time
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.ids import is_ticket_id
from gateway.station import acts, holds, item_rows, owners, wording
from gateway.station.acts import Act
from gateway.station.decided import Decision, Unknown
from gateway.station.selection import WAITING
from gateway.station.standings import insert
from gateway.station.storable import storable
from gateway.station.store import Store
from gateway.station.tables.items import items
from gateway.station.tables.reviews import causes, notes
from gateway.station.tables.reviews import holds as table
from gateway.station.tables.tickets import tickets

MAX_NOTE: Final = 4096
"""Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """It is done, and on record."""

    ticket: str | None = None
    group: str | None = None
    owner: str | None = None
    """Whose the item is now, of an assignment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """It is not as it was taken to be: the sentence says how it is, and whose doing that was."""

    sentence: str


async def assign(
    store: Store, ticket: str, owner: str | None, decision: Decision, *, seen: str | None = None
) -> Noted | Clash | Unknown:
    """Give an item that waits to somebody; None: back to its kind's owner. `seen` is whose it was taken to be."""
    async with store.writing() as transaction:
        row = await item_rows.newest(transaction, ticket)
        if row is None:
            return Unknown(ticket=ticket)
        if row.state not in WAITING:
            return Clash(sentence=item_rows.taken(row).sentence)
        before = await _owner(transaction, row)
        if seen is not None and seen != before:
            return Clash(sentence=f"ticket {ticket} is {wording.owned(before)} by now, not {wording.owned(seen)}")
        await transaction.execute(item_rows.update(row).values(assigned=storable(owner)))
        after = await _owner(transaction, row)
        told = f"{wording.owned(before)} -> {wording.owned(after)}: {decision.reason}"
        await _act(transaction, Act.ASSIGN, ticket, row.generation, Decision(by=decision.by, reason=told))
        return Noted(ticket=ticket, owner=after)


async def hold(store: Store, ticket: str, decision: Decision) -> Noted | Clash | Unknown:
    """Have a ticket wait: nobody decides about it until it is released. It need not have arrived, or be known."""
    if not is_ticket_id(ticket):
        return Unknown(ticket=ticket)
    async with store.writing() as transaction:
        generation = await _locked(transaction, ticket)
        if (standing := await holds.find(transaction, ticket)) is not None:
            return Clash(sentence=f"ticket {ticket}: {standing.sentence}")
        values = {"ticket": ticket, "by": storable(decision.by), "reason": storable(decision.reason)}
        statement = insert(transaction.dialect.name, table).on_conflict_do_nothing()
        done = await transaction.execute(statement.values(**values, since=time.time()))
        if not done.rowcount:  # of a ticket that nobody has reported yet, there is nothing to lock
            return Clash(sentence=f"ticket {ticket} was put on hold by somebody else at this moment")
        await _act(transaction, Act.HOLD, ticket, generation, decision)
        return Noted(ticket=ticket)


async def release(store: Store, ticket: str, decision: Decision, *, seen: float | None = None) -> Noted | Clash:
    """End the hold of a ticket; `seen` is when the hold began that is meant."""
    async with store.writing() as transaction:
        generation = await _locked(transaction, ticket)
        standing = await holds.find(transaction, ticket)
        if standing is None:
            return Clash(sentence=f"ticket {ticket} is not on hold")
        if seen is not None and seen != standing.since:
            return Clash(sentence=f"ticket {ticket} was released and put on hold again: {standing.sentence}")
        await transaction.execute(sa.delete(table).where(table.c.ticket == ticket))
        await _act(transaction, Act.HOLD_ENDED, ticket, generation, decision)
        return Noted(ticket=ticket)


async def note(store: Store, ticket: str, text: str, *, by: str) -> Noted | Clash | Unknown:
    """Write something down about a ticket that was reported at least once."""
    if (refused := _too_long(text)) is not None:
        return refused
    async with store.writing() as transaction:
        known = await transaction.scalar(sa.select(tickets.c.ticket).filter_by(ticket=ticket))
        row = await item_rows.newest(transaction, ticket)
        if known is None and row is None:
            return Unknown(ticket=ticket)
        generation = 0 if row is None else row.generation
        about = {"ticket": ticket, "generation": generation, "cause": None}
        await _write_down(transaction, text, by, about)
        await _act(transaction, Act.NOTE, ticket, generation, Decision(by=by, reason=text))
        return Noted(ticket=ticket)


async def note_group(store: Store, group: str, text: str, *, by: str) -> Noted | Clash | Unknown:
    """Write something down about all items of a cause, those that are still to come included."""
    if (refused := _too_long(text)) is not None:
        return refused
    async with store.writing() as transaction:
        if await transaction.scalar(sa.select(causes.c.id).filter_by(id=group)) is None:
            return Unknown(ticket=group)
        await _write_down(transaction, text, by, {"ticket": None, "generation": None, "cause": group})
        await acts.note(transaction, act=Act.NOTE, by=by, reason=text, cause=group)
        return Noted(group=group)


async def _locked(transaction: AsyncConnection, ticket: str) -> int:
    """Lock the ticket as every decision does, and return the generation that it is in."""
    query = sa.select(tickets.c.generation).filter_by(ticket=ticket).with_for_update()
    return await transaction.scalar(query) or 0


async def _owner(transaction: AsyncConnection, row: Any) -> str:
    query = sa.select(owners.owner()).where(items.c.ticket == row.ticket, items.c.generation == row.generation)
    return str(await transaction.scalar(query))


async def _write_down(transaction: AsyncConnection, text: str, by: str, about: dict[str, Any]) -> None:
    row = {**about, "at": time.time(), "by": storable(by), "text": storable(text)}
    await transaction.execute(sa.insert(notes).values(**row))


async def _act(transaction: AsyncConnection, act: Act, ticket: str, generation: int, decision: Decision) -> None:
    await acts.note(transaction, act=act, by=decision.by, reason=decision.reason, ticket=ticket, generation=generation)


def _too_long(text: str) -> Clash | None:
    size = len(text.encode("utf-8", "replace"))
    return Clash(sentence=f"a note has at most {MAX_NOTE} bytes, this one has {size}") if size > MAX_NOTE else None
