"""Which bodies somebody was let see, where seeing them is an act that is put on record.

Owns the record of it, and the memory: for one person, one item, and a while. Only the record outlives the process.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import sqlalchemy as sa

from gateway.station import acts
from gateway.station.acts import Act
from gateway.station.store import Store
from gateway.station.tables.items import items

LASTING: Final = 900.0
"""Seconds."""
_MOST: Final = 10_000


class Reveals:
    """What was revealed to whom."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: OrderedDict[tuple[str, str, int], float] = OrderedDict()

    def grant(self, holder: str, ticket: str, generation: int) -> None:
        """Let `holder` see the body of this item from now on, for a while."""
        while len(self._until) >= _MOST:
            self._until.popitem(last=False)
        self._until[holder, ticket, generation] = self._clock() + LASTING

    def has(self, holder: str, ticket: str, generation: int) -> bool:
        """Tell whether `holder` may see it now."""
        return self._until.get((holder, ticket, generation), 0.0) > self._clock()


async def note(store: Store, ticket: str, generation: int, *, by: str, reason: str) -> bool:
    """Put on record that somebody looks at a body, and why; False when there is none."""
    async with store.writing() as transaction:
        known = sa.select(items.c.ticket).filter_by(ticket=ticket, generation=generation)
        if (await transaction.execute(known)).one_or_none() is None:
            return False
        await acts.note(transaction, act=Act.BODY_REVEALED, by=by, reason=reason, ticket=ticket, generation=generation)
    return True
