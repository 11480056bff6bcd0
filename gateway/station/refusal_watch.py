"""Looks how many refusals there are by rule, and owes an alert where they surge.

Owns the rows of `notices` about refusals. The outbox sends them; that a window is told of once, the table ensures.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import sqlalchemy as sa

from gateway.contract.logs import event
from gateway.station.holding import AlertEvent
from gateway.station.pauses import pause
from gateway.station.standings import insert
from gateway.station.storable import document
from gateway.station.store import Store
from gateway.station.surge import Surge, Threshold, surges
from gateway.station.tables.alerts import notices
from gateway.station.tables.refusals import refusal_counts

LOOK_EVERY: Final = 2.0

logger: Final = logging.getLogger("lazaretto.refusals")


class RefusalWatch:
    """The looking. `run` until `stop` is set."""

    def __init__(
        self, *, store: Store, channels: Sequence[str], threshold: Threshold, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._channels = channels
        self._threshold = threshold
        self._clock = clock

    async def run(self, stop: asyncio.Event) -> None:
        """Look again and again; while the store cannot be used, wait for it."""
        while not stop.is_set() and self._threshold.least:
            try:
                await self.look()
            except (sa.exc.SQLAlchemyError, OSError) as error:
                event(logger, "refusals.unwatched", logging.WARNING, error=error)
            await pause(stop, LOOK_EVERY)

    async def look(self) -> list[Surge]:
        """Look once, and return the surges that nobody had been told of."""
        now = self._clock()
        # A whole minute earlier: that is how finely they are counted.
        query = sa.select(refusal_counts.c.rule, refusal_counts.c.minute, refusal_counts.c.number).where(
            refusal_counts.c.minute > self._threshold.looks_back(now) - 60
        )
        async with self._store.reading() as transaction:
            counts = [(row.rule, row.minute, row.number) for row in (await transaction.execute(query)).all()]
            windows = sa.select(notices.c.subject).filter_by(
                event=AlertEvent.REFUSALS_SURGED.value, window=self._threshold.begins(now)
            )
            told = set((await transaction.scalars(windows)).all())
        found = [surge for surge in surges(counts, self._threshold, now) if surge.rule not in told]
        rows = [self._row(surge, channel, now) for surge in found for channel in self._channels]
        if rows:
            async with self._store.writing() as transaction:
                statement = insert(transaction.dialect.name, notices).on_conflict_do_nothing()
                await transaction.execute(statement, rows)
        for surge in found:
            event(logger, "refusals.surge", logging.WARNING, rule=surge.rule, count=surge.count, usual=surge.usual)
        return found

    def _row(self, surge: Surge, channel: str, now: float) -> dict[str, Any]:
        fields = {
            "rule": surge.rule,
            "count": surge.count,
            "usual": round(surge.usual, 1),
            "since": surge.window,
            "span": self._threshold.window,
        }
        return {
            "event": AlertEvent.REFUSALS_SURGED.value,
            "subject": surge.rule,
            "window": surge.window,
            "channel": channel,
            "title": f"Refusals surge: {surge.rule}",
            "text": (
                f"{surge.count} requests were refused for {surge.rule} within {self._threshold.window:g} s;"
                f" {surge.usual:.1f} are usual. `rejections --rule {surge.rule} --group client` tells whose."
            ),
            "fields": document(fields),
            "created_at": now,
            "due_at": now,
            "tries": 0,
        }
