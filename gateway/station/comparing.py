"""What a group shares, found in the store: facts of its items, and of other tickets of the same kind; questions only.

Owns which others a group is compared with, and that no question reads more than a bounded sample.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.outcomes import Outcome, TicketState
from gateway.station import correlation
from gateway.station.correlation import Facts, Finding, Portrait
from gateway.station.storable import parsed
from gateway.station.store import Store
from gateway.station.tables.items import items
from gateway.station.tables.tickets import runs, tickets

MOST_ITEMS: Final = 500
"""Of a group, the newest."""
MOST_OTHERS: Final = 1000
"""Tickets that are done, the newest."""
_MOST_SEEN: Final = 5000
"""Tickets that are done, among which those of the kind are looked for."""
MOST_OTHER_ITEMS: Final = 200
"""Items of other groups, the newest."""
_ENOUGH: Final = 30
"""Others of the same kind; with fewer, those of all kinds are asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was found out about a group."""

    findings: Sequence[Finding]
    portrait: Portrait | None
    compared: int
    """Items of the group that were looked at."""
    with_others: int
    """Other tickets that they were compared with."""


async def of_group(store: Store, group: str, kind: str) -> Comparison:
    """Compare the items of a cause with tickets that are done and with items that died of something else."""
    async with store.reading() as transaction:
        theirs = await _of_items(transaction, [items.c.cause == group], MOST_ITEMS)
        others = await _others(transaction, group, kind)
        if len(others) < _ENOUGH:
            others = await _others(transaction, group, None)
    findings = correlation.find(theirs, others)
    portrait = correlation.portray(theirs, others, findings)
    return Comparison(findings=findings, portrait=portrait, compared=len(theirs), with_others=len(others))


async def _others(transaction: AsyncConnection, group: str, kind: str | None) -> list[Facts]:
    wanted = [items.c.cause != group, *([] if kind is None else [items.c.kind == kind])]
    return [*await _of_done(transaction, kind), *await _of_items(transaction, wanted, MOST_OTHER_ITEMS)]


async def _of_items(transaction: AsyncConnection, wanted: Sequence[Any], most: int) -> list[Facts]:
    about = [items.c[name] for name in ("ticket", "kind", "build", "admission")]
    query = (
        sa.select(*about, tickets.c.client, tickets.c.bytes, tickets.c.charset)
        .select_from(items.outerjoin(tickets, tickets.c.ticket == items.c.ticket))
        .where(*wanted)
        .order_by(items.c.arrived_at.desc(), items.c.ticket)
        .limit(most)
    )
    found = []
    for row in (await transaction.execute(query)).all():
        admission = parsed(row.admission) or {}
        found.append(
            Facts(
                kind=row.kind,
                client=row.client or admission.get("client") or None,
                charset=_said(admission.get("charset") or row.charset),
                build=row.build,
                bytes=admission["bytes"] if isinstance(admission.get("bytes"), int) else row.bytes,
            )
        )
    return found


async def _of_done(transaction: AsyncConnection, kind: str | None) -> list[Facts]:
    about = [tickets.c[name] for name in ("ticket", "generation", "kind", "client", "charset", "bytes")]
    order = tickets.c.updated_at.desc()
    # In two steps: a kind that is rare must not have a store read all that was ever done.
    late = (
        sa.select(*about).where(tickets.c.state == TicketState.DONE.value).order_by(order).limit(_MOST_SEEN).subquery()
    )
    of_kind = [] if kind is None else [late.c.kind == kind]
    newest = sa.select(late).where(*of_kind).limit(MOST_OTHERS).subquery()
    # The run that ended well: there is one in a generation.
    well = sa.and_(
        runs.c.ticket == newest.c.ticket,
        runs.c.generation == newest.c.generation,
        runs.c.outcome == Outcome.SUCCEEDED.value,
    )
    query = sa.select(newest, runs.c.evidence).select_from(newest.outerjoin(runs, well))
    return [
        Facts(kind=row.kind, client=row.client, charset=_said(row.charset), build=_build(row.evidence), bytes=row.bytes)
        for row in _once(await transaction.execute(query))
    ]


def _once(rows: Iterable[Any]) -> Iterable[Any]:
    return {row.ticket: row for row in rows}.values()


def _build(evidence: str | None) -> str | None:
    build = (parsed(evidence) or {}).get("build")
    return None if build is None else str(build)


def _said(charset: Any) -> str | None:
    return str(charset).lower() if charset else None
