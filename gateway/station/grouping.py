"""Puts items into groups: when they arrive, when the journal of their last run comes later, and those from before.

Owns the table `causes` and the columns `cause` and `build`. What a cause is, is told by `gateway.station.causes`; here
stands only which run speaks for an item.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.logs import event
from gateway.contract.text import clip
from gateway.station import causes
from gateway.station.pauses import pause
from gateway.station.standings import insert
from gateway.station.storable import document, parsed, storable
from gateway.station.store import Store
from gateway.station.tables.items import items
from gateway.station.tables.reviews import causes as table
from gateway.station.tables.tickets import runs

BATCH: Final = 200
"""Items at a time: the keeper writes, too."""
_LOOK_EVERY: Final = 600.0
"""Seconds between looks for items that a station of an earlier version has taken in."""
_AGAIN: Final = 2.0
_MAX_BUILD: Final = 128
_FROM_THE_ITEM: Final = 1
"""Trust in a run that only the item tells of: it lacks everything that makes a cause."""

logger: Final = logging.getLogger("lazaretto.grouping")

Key = tuple[str, int]


class Grouper:
    """Groups what was there before groups were. `run` until `stop` is set."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self, stop: asyncio.Event) -> None:
        """Group batch by batch, and look again now and then; while the store cannot be used, wait for it."""
        while not stop.is_set():
            try:
                number = 0
                while not stop.is_set() and (found := await group_some(self._store)):
                    number += found
                    await asyncio.sleep(0)
                if number:
                    event(logger, "items.grouped", items=number)
                await pause(stop, _LOOK_EVERY)
            except (sa.exc.SQLAlchemyError, OSError) as error:
                event(logger, "grouping.waits", logging.WARNING, error=error)
                await pause(stop, _AGAIN)


async def group_some(store: Store) -> int:
    """Group at most `BATCH` items that are in no group, and return how many those were."""
    order = (items.c.ticket, items.c.generation)
    async with store.reading() as transaction:
        query = sa.select(*order).where(items.c.cause.is_(None)).order_by(items.c.arrived_at, *order).limit(BATCH)
        keys = [(row.ticket, row.generation) for row in (await transaction.execute(query)).all()]
    if keys:
        async with store.writing() as transaction:
            await group(transaction, keys)
    return len(keys)


async def place(transaction: AsyncConnection, new: Sequence[dict[str, Any]]) -> None:
    """Put rows of `items` that are about to be written where what is known of their runs belongs."""
    told = await _last_runs(transaction, [(row["ticket"], row["generation"]) for row in new])
    died_of: dict[str, dict[str, Any]] = {}
    for row in new:
        run = told.get((row["ticket"], row["generation"]))
        cause, row["build"] = _of(row["kind"], row["reason"], row["detail"], run)
        row["cause"] = cause.id
        died_of.setdefault(cause.id, _row(cause, row["arrived_at"]))
    await _know(transaction, died_of)


async def group(transaction: AsyncConnection, keys: Iterable[Key]) -> None:
    """Put the items among these tickets and generations where what is known of them by now belongs."""
    wanted = sorted(set(keys))
    if not wanted:
        return
    about = ("ticket", "generation", "kind", "reason", "detail", "arrived_at", "cause", "build")
    here = sa.select(*(items.c[name] for name in about)).where(_among(items, wanted))
    found = (await transaction.execute(here.order_by(items.c.ticket, items.c.generation))).all()
    if not found:
        return
    told = await _last_runs(transaction, [(row.ticket, row.generation) for row in found])
    changes: list[dict[str, Any]] = []
    died_of: dict[str, dict[str, Any]] = {}
    for row in found:
        cause, build = _of(row.kind, row.reason, row.detail, told.get((row.ticket, row.generation)))
        if (cause.id, build) != (row.cause, row.build):
            changes.append(
                {"its_ticket": row.ticket, "its_generation": row.generation, "cause": cause.id, "build": build}
            )
            died_of.setdefault(cause.id, _row(cause, row.arrived_at))
    if changes:
        await _know(transaction, died_of)
        its = (items.c.ticket == sa.bindparam("its_ticket"), items.c.generation == sa.bindparam("its_generation"))
        await transaction.execute(
            sa.update(items).where(*its).values(cause=sa.bindparam("cause"), build=sa.bindparam("build")), changes
        )


async def _know(transaction: AsyncConnection, died_of: Mapping[str, dict[str, Any]]) -> None:
    # In one order, or two transactions may each wait for a row that the other has.
    rows = [died_of[name] for name in sorted(died_of)]
    await transaction.execute(insert(transaction.dialect.name, table).on_conflict_do_nothing(), rows)


def _of(kind: str, reason: str, detail: str | None, run: Any) -> tuple[causes.Cause, str | None]:
    """Return what an item died of, and the handler build that ran it last."""
    evidence = (parsed(run.evidence) if run is not None else None) or {}
    cause = causes.find(
        kind=kind,
        reason=reason,
        detail=detail,
        outcome=None if run is None else run.outcome,
        evidence=evidence,
    )
    return cause, storable(clip(str(evidence["build"]), _MAX_BUILD)) if evidence.get("build") else None


async def _last_runs(transaction: AsyncConnection, keys: Sequence[Key]) -> dict[Key, Any]:
    # In order, so that the last one of each item stays. One start may be told of twice, by its node and, under another
    # number of interruptions, by the item itself.
    order = (runs.c.attempt, runs.c.trust > _FROM_THE_ITEM, runs.c.interruptions)
    query = sa.select(runs.c.ticket, runs.c.generation, runs.c.outcome, runs.c.evidence)
    rows = await transaction.execute(query.where(_among(runs, keys)).order_by(*order))
    return {(row.ticket, row.generation): row for row in rows}


def _row(cause: causes.Cause, at: float) -> dict[str, Any]:
    return {
        "id": cause.id,
        "kind": storable(cause.kind),
        "outcome": storable(cause.outcome),
        "what": storable(cause.what),
        "frames": document(cause.frames),
        "first_at": at,
    }


def _among(rows: sa.Table, keys: Sequence[Key]) -> sa.ColumnElement[bool]:
    return sa.tuple_(rows.c.ticket, rows.c.generation).in_(keys)
