"""Owes a reminder of every item that nobody has decided by its deadline.

Owns the rows of `notices` about deadlines. The outbox sends them; that there is one for an item and a deadline, the
table ensures. What is on hold is not reminded of: somebody has said that it must wait.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import sqlalchemy as sa

from gateway.contract.logs import event
from gateway.station import owners, wording
from gateway.station.holding import AlertEvent
from gateway.station.pauses import pause
from gateway.station.standings import insert
from gateway.station.storable import document, storable
from gateway.station.store import Store
from gateway.station.tables.alerts import notices
from gateway.station.tables.items import items

LOOK_EVERY: Final = 5.0
BATCH: Final = 100
"""Items reminded of at a time."""

logger: Final = logging.getLogger("lazaretto.reminders")


class Reminders:
    """The looking. `run` until `stop` is set."""

    def __init__(
        self, *, store: Store, channels: Sequence[str], desk: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._channels = channels
        self._desk = desk
        self._clock = clock

    async def run(self, stop: asyncio.Event) -> None:
        """Look again and again; while the store cannot be used, wait for it."""
        while not stop.is_set():
            found: list[str] = []
            try:
                found = await self.look()
            except (sa.exc.SQLAlchemyError, OSError) as error:
                event(logger, "reminders.wait", logging.WARNING, error=error)
            if len(found) < BATCH:
                await pause(stop, LOOK_EVERY)

    async def look(self) -> list[str]:
        """Look once, and return the tickets that nobody had been reminded of."""
        now = self._clock()
        deadline = owners.deadline().label("deadline")
        told = (
            sa.select(notices.c.id)
            .where(
                notices.c.event == AlertEvent.REVIEW_OVERDUE.value,
                notices.c.subject == subject(items.c.ticket, items.c.generation),
                notices.c.window == owners.deadline(),
            )
            .exists()
        )
        about = [items.c[name] for name in ("ticket", "generation", "kind", "reason", "attempts", "arrived_at")]
        query = (
            sa.select(*about, deadline, owners.owner().label("owner"))
            .where(owners.is_overdue(now), sa.not_(told))
            .order_by(items.c.arrived_at, items.c.ticket)
            .limit(BATCH)
        )
        async with self._store.reading() as transaction:
            found = (await transaction.execute(query)).all()
        rows = [self._row(row, channel, now) for row in found for channel in self._channels]
        if rows:
            async with self._store.writing() as transaction:
                await transaction.execute(insert(transaction.dialect.name, notices).on_conflict_do_nothing(), rows)
        for row in found:
            event(
                logger, "review.overdue", logging.WARNING, ticket=row.ticket, generation=row.generation, owner=row.owner
            )
        return [row.ticket for row in found] if rows else []

    def _row(self, row: Any, channel: str, now: float) -> dict[str, Any]:
        link = f"{self._desk}/items/{row.ticket}"
        since, until = wording.clock(row.arrived_at), wording.clock(row.deadline)
        fields = {
            "ticket": row.ticket,
            "generation": row.generation,
            "kind": row.kind,
            "reason": row.reason,
            "attempts": row.attempts,
            "owner": row.owner,
            "since": row.arrived_at,
            "deadline": row.deadline,
            "link": link,
        }
        text = (
            f"Ticket {row.ticket} ({wording.one_line(row.kind)}), {wording.owned(row.owner)}, is in quarantine since"
            f" {since} and was to be decided by {until}: {wording.one_line(row.reason)}. {link}"
        )
        return {
            "event": AlertEvent.REVIEW_OVERDUE.value,
            "subject": f"{row.ticket}/{row.generation}",
            "window": row.deadline,
            "channel": channel,
            "title": f"Review overdue: ticket {row.ticket}",
            "text": storable(text),
            "fields": document(fields),
            "created_at": now,
            "due_at": now,
            "tries": 0,
        }


def subject(ticket: sa.ColumnElement[str], generation: sa.ColumnElement[int]) -> sa.ColumnElement[str]:
    """Name an item as reminders do; no ticket id has a slash."""
    return ticket + "/" + sa.cast(generation, sa.Text)
