"""Where tickets stand: the merge of P18 as one SQL statement.

Owns the table `tickets`, and tells `gateway.station.callbacks` what was merged into it. Reports may arrive in any order
and more than once; the row that results is the same.
"""

import importlib
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.ids import UNKNOWN_KIND
from gateway.contract.outcomes import RANK, Standing, TicketState
from gateway.station.callbacks import owe
from gateway.station.storable import storable
from gateway.station.tables.callbacks import callbacks
from gateway.station.tables.tickets import tickets


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One report of where a ticket stands."""

    ticket: str
    kind: str
    standing: Standing
    attempts: int
    """Charged starts of this generation that the report knows of."""
    excusable: bool = False
    """The last of them may still end uncharged: it counts only for as long as nothing later is known."""
    at: float
    """Unix seconds, on the reporter's clock; shown to people, never used for order."""
    client: str | None = None
    detail: str | None = None
    bytes: int | None = None
    charset: str | None = None
    """As the door measured them; None from whoever does not say."""


async def merge(transaction: AsyncConnection, reports: Iterable[Report]) -> None:
    """Merge reports into the tickets' rows."""
    # In one order, or two batches may each wait for a row that the other has; what one ticket reports keeps its turn.
    rows = sorted((_row(report) for report in reports), key=lambda row: str(row["ticket"]))
    if rows:
        dialect = transaction.dialect.name
        await transaction.execute(_statement(dialect), rows)
        told = [(str(row["ticket"]), row["generation"], TicketState(row["state"])) for row in rows]
        await owe(transaction, told, insert(dialect, callbacks), time.time())


def insert(dialect: str, table: sa.Table) -> Any:
    """Return an INSERT that can say what to do about a row that exists."""
    # By name, and not by an import of both: that of PostgreSQL brings all its drivers along.
    return importlib.import_module(f"sqlalchemy.dialects.{dialect}").insert(table)


def _row(report: Report) -> dict[str, Any]:
    stamp = report.standing.stamp
    return {
        "ticket": storable(report.ticket),
        "kind": storable(report.kind),
        "state": report.standing.state.value,
        "rank": RANK[report.standing.state],
        "generation": stamp.generation,
        "attempt": stamp.attempt,
        "interruptions": stamp.interruptions,
        "attempts": report.attempts,
        "charged": report.attempts - report.excusable,
        "client": storable(report.client),
        "detail": storable(report.detail),
        "bytes": report.bytes,
        "charset": storable(report.charset),
        "updated_at": report.at,
    }


@cache
def _statement(dialect: str) -> sa.Executable:
    statement = insert(dialect, tickets)
    new, old = statement.excluded, tickets.c
    order = ("generation", "attempt", "interruptions", "rank", "state")
    theirs = sa.tuple_(*(new[name] for name in order))
    ours = sa.tuple_(*(old[name] for name in order))
    later, same = ours < theirs, ours == theirs
    changes: dict[str, Any] = {name: sa.case((later, new[name]), else_=old[name]) for name in order}
    changes["detail"] = sa.case((later, new.detail), (same, sa.func.coalesce(old.detail, new.detail)), else_=old.detail)
    changes["updated_at"] = sa.case(
        (later, new.updated_at), (sa.and_(same, old.updated_at < new.updated_at), new.updated_at), else_=old.updated_at
    )
    # A late report may know of a charge that the newest one does not count: within a generation those only grow.
    charged = sa.case(
        (old.generation < new.generation, new.charged),
        (old.generation > new.generation, old.charged),
        else_=_greater(old.charged, new.charged),
    )
    claimed = sa.case((later, new.attempts), (same, _greater(old.attempts, new.attempts)), else_=old.attempts)
    changes |= {"charged": charged, "attempts": _greater(charged, claimed)}
    changes |= {name: sa.func.coalesce(old[name], new[name]) for name in ("client", "bytes", "charset")}
    changes["kind"] = sa.case((old.kind == UNKNOWN_KIND, new.kind), else_=old.kind)
    statement = statement.on_conflict_do_update(index_elements=[tickets.c.ticket], set_=changes)
    found: sa.Executable = statement
    return found


def _greater(one: Any, other: Any) -> Any:
    return sa.case((one < other, other), else_=one)
