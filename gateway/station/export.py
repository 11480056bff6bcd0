"""The audit log and the items, whole, as JSON lines: what an auditor takes away.

Owns the members of a line, which users rely on: add to them, do not rename. Reads page by page, so that a large store
is no large memory. Never writes.
"""

import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from gateway.station.selection import Filter, where
from gateway.station.storable import parsed
from gateway.station.store import Store
from gateway.station.tables.audit import audit
from gateway.station.tables.items import items

_PAGE: Final = 500
_PAGE_WITH_BODIES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which acts are meant; None is any. Times in Unix seconds."""

    since: float | None = None
    until: float | None = None
    actor: str | None = None
    act: str | None = None
    ticket: str | None = None
    operation: str | None = None


async def acts(store: Store, chosen: AuditFilter) -> AsyncIterator[dict[str, Any]]:
    """Yield every act that is meant, oldest first; `number` grows, and never has a line in its place again."""
    wanted = [
        audit.c[name] == getattr(chosen, name)
        for name in ("actor", "act", "ticket", "operation")
        if getattr(chosen, name) is not None
    ]
    if chosen.since is not None:
        wanted.append(audit.c.at >= chosen.since)
    if chosen.until is not None:
        wanted.append(audit.c.at <= chosen.until)
    last = -1
    while True:
        query = sa.select(audit).where(audit.c.id > last, *wanted).order_by(audit.c.id).limit(_PAGE)
        async with store.reading() as transaction:
            rows = (await transaction.execute(query)).all()
        for row in rows:
            last = row.id
            yield {
                "number": row.id,
                "at": row.at,
                "ticket": row.ticket or None,
                "generation": row.generation if row.ticket else None,
                "actor": row.actor,
                "act": row.act,
                "code": row.code,
                "reason": row.reason,
                "operation": row.operation,
                "group": row.cause,
            }
        if len(rows) < _PAGE:
            return


async def held(store: Store, chosen: Filter, *, bodies: bool = False) -> AsyncIterator[dict[str, Any]]:
    """Yield every item that is meant, oldest first; with its body in base64 where that is asked for."""
    page = _PAGE_WITH_BODIES if bodies else _PAGE
    left_out = {"properties"} if bodies else {"properties", "body"}
    columns = [column for column in items.c if column.name not in left_out]
    order = (items.c.arrived_at, items.c.ticket, items.c.generation)
    last: Any = None
    while True:
        query = sa.select(*columns).where(*where(chosen)).order_by(*order).limit(page)
        if last is not None:
            query = query.where(sa.tuple_(*order) > sa.tuple_(last.arrived_at, last.ticket, last.generation))
        async with store.reading() as transaction:
            rows = (await transaction.execute(query)).mappings().all()
        for row in rows:
            line = dict(row)
            line |= {name: parsed(row[name]) for name in ("headers", "admission")}
            line["malformed"] = bool(row["malformed"])
            if bodies:
                line["body"] = base64.b64encode(bytes(row["body"])).decode()
            yield line
        if len(rows) < page:
            return
        last = _Last(rows[-1]["arrived_at"], rows[-1]["ticket"], rows[-1]["generation"])


@dataclass(frozen=True, slots=True)
class _Last:
    arrived_at: float
    ticket: str
    generation: int
