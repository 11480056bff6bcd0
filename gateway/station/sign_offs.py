"""Records of reviews in the store: put together from what is known, and signed.

Owns the table `sign_offs`, to which rows are only ever added. A signature is given for the record as somebody saw it:
where more is known by then, it is refused.
"""

import time
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from gateway.station import acts, dossier, groups, record
from gateway.station.acts import Act
from gateway.station.decided import Decision, Unknown
from gateway.station.record import Record, SignOff
from gateway.station.reviewing import Clash
from gateway.station.storable import document, parsed, storable
from gateway.station.store import Store
from gateway.station.tables.reviews import sign_offs

MOST_SIGN_OFFS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """The record as it was signed."""

    record: Record


async def find(store: Store, ticket: str) -> Record | None:
    """Return the record of a ticket; None when nobody ever reported it."""
    found = await dossier.find(store, ticket)
    if found is None:
        return None
    group = found.items[0].group if found.items else None
    notes = await groups.find_notes(store, ticket=ticket, group=group)
    return Record(ticket=ticket, entries=record.entries(found, notes), sign_offs=await _sign_offs(store, ticket))


async def sign(store: Store, ticket: str, decision: Decision, *, seen: str | None = None) -> Signed | Clash | Unknown:
    """Sign the record of a ticket, in the words of `decision`; `seen` is the digest of what the signer has read."""
    found = await find(store, ticket)
    if found is None:
        return Unknown(ticket=ticket)
    if seen is not None and seen != found.digest:
        return Clash(sentence=f"the record of ticket {ticket} has changed: read it again, its digest is {found.digest}")
    if found.is_signed:
        last = found.sign_offs[-1]
        return Clash(sentence=f"the record of ticket {ticket} is signed by {last.by} and nothing has changed since")
    now = time.time()
    row = {
        "ticket": ticket,
        "at": now,
        "by": storable(decision.by),
        "words": storable(decision.reason),
        "digest": found.digest,
        "entries": document(sorted(entry.key for entry in found.entries)),
    }
    async with store.writing() as transaction:
        await transaction.execute(sa.insert(sign_offs).values(**row))
        await acts.note(
            transaction,
            act=Act.SIGN_OFF,
            by=decision.by,
            reason=decision.reason,
            ticket=ticket,
            code=found.digest,
            at=now,
        )
    signed = await find(store, ticket)
    return Unknown(ticket=ticket) if signed is None else Signed(record=signed)


async def _sign_offs(store: Store, ticket: str) -> list[SignOff]:
    query = sa.select(sign_offs).filter_by(ticket=ticket).order_by(sign_offs.c.id.desc()).limit(MOST_SIGN_OFFS)
    async with store.reading() as transaction:
        rows = (await transaction.execute(query)).all()
    return [
        SignOff(at=row.at, by=row.by, words=row.words, digest=row.digest, entries=frozenset(parsed(row.entries)))
        for row in rows[::-1]
    ]
