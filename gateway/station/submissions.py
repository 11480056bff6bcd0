"""What clients have sent under a key or an id of their own, so that sending it again is the same, not another (G8).

Owns the table `submissions`: who is at a ticket now, until when, and the first answer. Several doors may want to be the
one that takes it in: the row decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.station.standings import insert
from gateway.station.tables.submissions import submissions

CLOCKS_DIFFER: Final = 2.0
"""Seconds by which the clocks of two doors may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A door's wish to be the one that publishes a ticket."""

    ticket: str
    """Chosen by the client, or made of the client and its key."""
    digest: str
    """Of the client and the contents."""
    holder: str
    """Told apart from every other claim."""
    lease: float
    """Seconds after which another may take it over."""
    keep: float
    """Seconds that the ticket is remembered here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The claim is held: publish, then record or release."""

    taken_over: bool = False
    """Whether somebody before did not come to an end, and may have published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """Somebody else is at it, for `seconds` at the most."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """It was accepted before, with this answer."""

    status: int
    answer: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Differs:
    """The ticket's id stands for something else."""


Found = Claimed | InFlight | Recorded | Differs


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """The broker has what was claimed; this is to be its answer."""

    held: Claim
    status: int
    answer: bytes


async def claim(transaction: AsyncConnection, wanted: Sequence[Claim], now: float) -> list[Found]:
    """Claim tickets, or say what is known of them, in the order asked; none may be there twice. `now`: Unix seconds."""
    if not wanted:
        return []
    statement = insert(transaction.dialect.name, submissions).on_conflict_do_nothing()
    statement = statement.returning(submissions.c.ticket)
    # In one order for all doors, so that two which want the same rows wait for each other and not for ever.
    rows = sorted((_row(each, now) for each in wanted), key=itemgetter("ticket"))
    fresh = set((await transaction.scalars(statement, rows)).all())
    others = [each.ticket for each in wanted if each.ticket not in fresh]
    known = {}
    if others:
        query = sa.select(submissions).where(submissions.c.ticket.in_(others)).order_by(submissions.c.ticket)
        known = {row.ticket: row for row in await transaction.execute(query.with_for_update())}
    return [
        Claimed() if each.ticket in fresh else await _claim_known(transaction, each, known.get(each.ticket), now)
        for each in wanted
    ]


async def _claim_known(transaction: AsyncConnection, wanted: Claim, found: Any, now: float) -> Found:
    ours = submissions.c.ticket == wanted.ticket
    if found is None:
        return InFlight(seconds=0.0)  # forgotten between the two statements: the next try finds nothing
    if found.expires_at <= now:
        await transaction.execute(sa.update(submissions).where(ours).values(_row(wanted, now)))
        return Claimed()
    if found.digest != wanted.digest:
        return Differs()
    if found.status is not None:
        return Recorded(status=found.status, answer=found.answer)
    # By the lease that its holder wrote: doors need not have one deadline, nor exactly one time. One that ends later
    # than any that begins now was given by a clock that has gone back since.
    lease = wanted.lease if found.lease is None else found.lease
    if now < found.held_until <= now + lease + CLOCKS_DIFFER:
        return InFlight(seconds=found.held_until - now)
    held = {"holder": wanted.holder, "held_until": now + wanted.lease, "lease": wanted.lease}
    await transaction.execute(sa.update(submissions).where(ours).values(held))
    return Claimed(taken_over=True)


async def record(transaction: AsyncConnection, confirmed: Sequence[Confirmed], now: float) -> list[Recorded]:
    """Record the answers to publishes that were confirmed; return those that were recorded first, in the order given.

    Also for claims that somebody has taken over: what they were about is accepted all the same.
    """
    if not confirmed:
        return []
    statement = insert(transaction.dialect.name, submissions)
    new = statement.excluded
    statement = statement.on_conflict_do_update(
        index_elements=[submissions.c.ticket],
        set_={name: new[name] for name in ("status", "answer", "expires_at")},
        where=sa.and_(submissions.c.status.is_(None), submissions.c.digest == new.digest),
    ).returning(submissions.c.ticket)
    rows = sorted(
        ({**_row(each.held, now), "status": each.status, "answer": each.answer} for each in confirmed),
        key=itemgetter("ticket"),
    )
    ours = set((await transaction.scalars(statement, rows)).all())
    others = [each.held.ticket for each in confirmed if each.held.ticket not in ours]
    earlier = {}
    if others:
        query = sa.select(submissions).where(submissions.c.ticket.in_(others))
        earlier = {(row.ticket, row.digest): row for row in await transaction.execute(query)}
    found = [earlier.get((each.held.ticket, each.held.digest)) for each in confirmed]
    return [
        Recorded(status=each.status, answer=each.answer)
        if row is None or row.status is None
        else Recorded(status=row.status, answer=row.answer)
        for each, row in zip(confirmed, found, strict=True)
    ]


async def release(transaction: AsyncConnection, held: Sequence[Claim]) -> None:
    """Let go of claims whose publish was not confirmed: the next one need not wait for the end of the lease."""
    for each in held:
        ours = sa.and_(submissions.c.ticket == each.ticket, submissions.c.holder == each.holder)
        await transaction.execute(
            sa.update(submissions).where(ours, submissions.c.status.is_(None)).values(held_until=0.0)
        )


async def forget(transaction: AsyncConnection, now: float, most: int) -> int:
    """Forget tickets whose time is over, `most` at once; return how many there were."""
    over = sa.select(submissions.c.ticket).where(submissions.c.expires_at <= now).limit(most)
    result = await transaction.execute(sa.delete(submissions).where(submissions.c.ticket.in_(over)))
    return result.rowcount


def _row(wanted: Claim, now: float) -> dict[str, Any]:
    return {
        "ticket": wanted.ticket,
        "digest": wanted.digest,
        "holder": wanted.holder,
        "held_until": now + wanted.lease,
        "lease": wanted.lease,
        "status": None,
        "answer": None,
        "expires_at": now + max(wanted.keep, wanted.lease),  # nobody forgets what is in flight
    }
