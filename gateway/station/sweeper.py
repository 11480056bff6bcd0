"""Removes what is over, a little at a time, so that the store grows with what goes on and not with what went on.

Owns when that is done and how much at once. What may go is said by `leftovers`; items have rules and a sweep of their
own (`tombstones`). Never holds the write lock for more than one batch.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

import sqlalchemy as sa

from gateway.contract.logs import event
from gateway.station import leftovers
from gateway.station.leftovers import Rule
from gateway.station.pauses import pause
from gateway.station.store import Store

LOOK_EVERY: Final = 600.0
BATCH: Final = 500
_BETWEEN: Final = 0.2
"""Seconds between two batches: whoever else writes has its turn."""
COUNTED_BY_THE_MINUTE: Final = 8 * 86_400.0
"""Seconds for which counts stay as fine as surges are told from: those look back for seven windows of a day each."""

logger: Final = logging.getLogger("lazaretto.sweeper")


def rules(*, tickets: float, refusals: float, operations: float) -> Sequence[Rule]:
    """Return the rules in their order; times in seconds for which a ticket, or the like, is kept, 0: for ever."""
    counts = refusals and max(refusals, COUNTED_BY_THE_MINUTE)
    return (
        Rule(keep=tickets, remove=leftovers.remove_tickets),
        Rule(keep=tickets, remove=leftovers.remove_callbacks),
        Rule(keep=refusals, remove=leftovers.remove_refusals),
        Rule(keep=refusals, remove=leftovers.remove_passes),
        Rule(keep=refusals, remove=leftovers.remove_notices),
        Rule(keep=counts, remove=leftovers.remove_counts),
        Rule(keep=operations, remove=leftovers.remove_lines),
        Rule(keep=operations, remove=leftovers.remove_operations),
    )


class Sweeper:
    """The removing. `run` until `stop` is set."""

    def __init__(self, *, store: Store, rules: Sequence[Rule], clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._rules = [rule for rule in rules if rule.keep]
        self._clock = clock

    async def run(self, stop: asyncio.Event) -> None:
        """Remove what is over, again and again; while the store cannot be used, wait for it."""
        while not stop.is_set() and self._rules:
            try:
                await self.sweep(stop)
            except (sa.exc.SQLAlchemyError, OSError) as error:
                event(logger, "sweeper.waits", logging.WARNING, error=error)
            await pause(stop, LOOK_EVERY)

    async def sweep(self, stop: asyncio.Event) -> int:
        """Remove all that is over now; return how many were counted, of every sort together."""
        total = 0
        for rule in self._rules:
            removed = BATCH
            while removed >= BATCH and not stop.is_set():
                removed = await self._batch(rule)
                total += removed
                if removed:
                    await pause(stop, _BETWEEN)
        if total:
            event(logger, "sweeper.removed", rows=total)
        return total

    async def _batch(self, rule: Rule) -> int:
        now = self._clock()
        async with self._store.writing() as transaction:
            return await rule.remove(transaction, now - rule.keep, now, BATCH)
