"""Notices that something on the pages has changed, once for all who look at them.

Owns the question that tells so: a few cheap figures of the store, asked at most every `LOOK_EVERY` seconds however many
browsers wait. Says that there is news, never what: the page says that.
"""

import asyncio
import hashlib
import time
from typing import Final

import sqlalchemy as sa

from gateway.contract.journal import Condition, EventName
from gateway.station.store import Store
from gateway.station.tables.alerts import alerts
from gateway.station.tables.audit import audit
from gateway.station.tables.items import items
from gateway.station.tables.nodes import node_states
from gateway.station.tables.refusals import refusals

LOOK_EVERY: Final = 2.0
"""Seconds."""


class Bulletin:
    """What the store's pages look like by now, as a name that changes when they do."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asking = asyncio.Lock()
        self._asked = float("-inf")
        self._edition = ""

    async def edition(self) -> str:
        """Return the name of what there is now."""
        async with self._asking:
            if time.monotonic() - self._asked >= LOOK_EVERY:
                self._edition = await self._look()
                self._asked = time.monotonic()
            return self._edition

    async def _look(self) -> str:
        waiting = sa.select(sa.func.count()).select_from(items).where(items.c.state.in_(["held", "replaying"]))
        newest = [
            sa.select(sa.func.max(column)).scalar_subquery() for column in (audit.c.id, alerts.c.id, refusals.c.at)
        ]
        of_itself = node_states.c.event == EventName.NODE.value
        newest.append(sa.select(sa.func.max(node_states.c.at)).where(~of_itself).scalar_subquery())
        # Every node tells of itself twice a minute: that one is there, or is not well, is news; that it says so is not.
        newest += [
            sa.select(sa.func.count()).select_from(node_states).where(of_itself, well).scalar_subquery()
            for well in (node_states.c.state == Condition.READY.value, node_states.c.state != Condition.READY.value)
        ]
        sent = sa.select(sa.func.max(alerts.c.sent_at)).scalar_subquery()
        async with self._store.reading() as transaction:
            row = (await transaction.execute(sa.select(waiting.scalar_subquery(), *newest, sent))).one()
        return hashlib.sha256(repr(tuple(row)).encode()).hexdigest()[:16]
