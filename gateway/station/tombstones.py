"""Removes body and headers of what was decided long ago, and leaves a tombstone.

Owns the only removal in quarantine. What was held, why, who decided what and when, and the audit stay; when the
contents may go is said by `retention`, and asked again in the statement that removes them.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.logs import event
from gateway.station import acts, owners, spool
from gateway.station.acts import Act
from gateway.station.dossier import Dossier, Item
from gateway.station.pauses import pause
from gateway.station.retention import DECIDED, ENDED, Facts, removal_at
from gateway.station.store import Store
from gateway.station.tables.items import items, spooled
from gateway.station.tables.operations import replays
from gateway.station.tables.tickets import tickets

LOOK_EVERY: Final = 60.0
BATCH: Final = 100
ACTOR: Final = "retention"
_BETWEEN: Final = 1.0
"""Seconds between two full batches: nobody waits for this."""

logger: Final = logging.getLogger("lazaretto.retention")


class Tombstones:
    """The removing. `run` until `stop` is set."""

    def __init__(self, *, store: Store, keep: float, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._keep = keep
        self._clock = clock

    async def run(self, stop: asyncio.Event) -> None:
        """Remove what is due, again and again; while the store cannot be used, wait for it."""
        while not stop.is_set() and self._keep:
            removed = 0
            try:
                removed = await self.sweep()
            except (sa.exc.SQLAlchemyError, OSError) as error:
                event(logger, "retention.waits", logging.WARNING, error=error)
            await pause(stop, _BETWEEN if removed == BATCH else LOOK_EVERY)

    async def sweep(self) -> int:
        """Remove the contents of at most `BATCH` items; return of how many."""
        now = self._clock()
        async with self._store.reading() as transaction:
            due = (await transaction.execute(_due(self._keep, now))).all()
        removed = 0
        if due:
            async with self._store.writing() as transaction:
                for row in due:
                    removed += await self._remove(transaction, row, now)
        await self._forget_files()
        return removed

    async def _remove(self, transaction: AsyncConnection, row: Any, now: float) -> bool:
        values = {"removed_at": now, "removed_bytes": sa.func.length(items.c.body)}
        still = sa.and_(items.c.ticket == row.ticket, items.c.generation == row.generation, _may_go(self._keep, now))
        emptied = sa.update(items).where(still).values(body=b"", properties=b"", headers="{}", **values)
        if not (await transaction.execute(emptied)).rowcount:
            return False  # somebody has taken it up again
        days = self._keep / 86_400
        edited = sa.update(replays).filter_by(ticket=row.ticket, generation=row.generation)
        await transaction.execute(edited.values(body=None, difference=None))
        await acts.note(
            transaction,
            act=Act.CONTENTS_REMOVED,
            by=ACTOR,
            reason=f"decided and ended more than {days:g} days ago (LAZARETTO_ITEM_RETENTION)",
            ticket=row.ticket,
            generation=row.generation,
            at=now,
        )
        event(logger, "item.removed", ticket=row.ticket, generation=row.generation)
        return True

    async def _forget_files(self) -> None:
        """Remove the raw files of what is a tombstone by now; never before that is committed."""
        gone = sa.exists().where(items.c.spool_path == spooled.c.path, items.c.removed_at.is_not(None))
        async with self._store.reading() as transaction:
            if not await transaction.scalar(sa.select(sa.func.count()).select_from(spooled)):
                return
            paths = (await transaction.scalars(sa.select(spooled.c.path).where(gone))).all()
        for path in paths:
            try:
                await asyncio.to_thread(spool.forget, Path(path))
            except OSError as error:
                # It stays on record as a raw file; the others must not wait for it.
                event(logger, "retention.file_stays", logging.WARNING, path=path, error=error)
            else:
                async with self._store.writing() as transaction:
                    await transaction.execute(sa.delete(spooled).where(spooled.c.path == path))


def facts_of(found: Dossier, item: Item) -> Facts:
    """Return what the rule wants to know of one item of a ticket."""
    return Facts(
        state=item.state,
        decided_at=item.decided_at,
        removed_at=item.removed_at,
        ticket_state=found.state,
        reported_at=found.updated_at,
        all_states=[other.state for other in found.items],
        on_hold=item.on_hold,
    )


def countdown(found: Dossier, item: Item, keep: float) -> float | None:
    """Return when an item's contents go (Unix seconds), None while nothing makes them go."""
    return removal_at(facts_of(found, item), keep)


def _may_go(keep: float, now: float) -> sa.ColumnElement[bool]:
    """The rule of `retention` as a condition on a row of `items`."""
    others = items.alias()
    undecided = sa.exists().where(others.c.ticket == items.c.ticket, others.c.state.not_in(DECIDED))
    ended = sa.exists().where(
        tickets.c.ticket == items.c.ticket, tickets.c.state.in_(ENDED), tickets.c.updated_at <= now - keep
    )
    return sa.and_(
        items.c.removed_at.is_(None),
        items.c.decided_at <= now - keep,
        items.c.state.in_(DECIDED),
        sa.not_(undecided),
        sa.not_(owners.is_on_hold()),
        ended,
    )


def _due(keep: float, now: float) -> sa.Select[Any]:
    columns = (items.c.ticket, items.c.generation)
    return sa.select(*columns).where(_may_go(keep, now)).order_by(items.c.decided_at).limit(BATCH)
