"""The door's reports to the station's journal: accepted, refused.

Owns events that are not confirmed yet: a bounded buffer, one batch at a time, tried again until it is. An answer to a
client never depends on it; what had to be given up is counted.
"""

import asyncio
import logging
from collections import deque
from typing import Final

from gateway.amqp.fate import Fate
from gateway.contract import journal, logs
from gateway.contract.envelope import APP_ID
from gateway.contract.ids import uuid7
from gateway.contract.journal import Event
from gateway.contract.topology import Topology
from gateway.contract.wire import Wire
from gateway.metrics import Metrics
from gateway.publisher import Publisher, Purpose

log = logging.getLogger("gateway.reporter")

MAX_WAITING: Final = 20_000
"""Events; with at most 17 KiB each in the worst case, and a few hundred bytes as a rule."""
_RETRY: Final = 0.5
_GATHER: Final = 0.005
"""Seconds in which events gather before they go: a message of their own costs as much as a fifth of a ticket."""


class Reporter:
    """Collects events and publishes them in batches; `run()` until cancelled."""

    def __init__(self, publisher: Publisher, topology: Topology, *, deadline: float, metrics: Metrics) -> None:
        self._publisher = publisher
        self._route = topology.to_journal()
        self._deadline = deadline
        self._metrics = metrics
        self._waiting: deque[bytes] = deque()
        """Events as they are written: nothing of a request is kept for them."""
        self._batch: list[bytes] = []
        self._more = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def waiting(self) -> int:
        """How many events are not confirmed yet."""
        return len(self._waiting) + len(self._batch)

    def report(self, event: Event) -> None:
        """Take an event over; the oldest gives way when too many wait."""
        self.report_written(journal.row_of(event))

    def report_written(self, row: bytes) -> None:
        """Do so with an event that is written already."""
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self._metrics.events_dropped.inc()
        self._waiting.append(row)
        self._idle.clear()
        self._more.set()

    async def run(self) -> None:
        """Publish what comes; what arrived within a few milliseconds, or while a batch was under way, goes together."""
        while True:
            await self._more.wait()
            self._more.clear()
            await asyncio.sleep(_GATHER)
            while self._waiting or self._batch:
                if not self._batch:
                    self._batch = [
                        self._waiting.popleft() for _ in range(min(len(self._waiting), journal.MAX_BATCH_EVENTS))
                    ]
                if await self._publish(self._batch):
                    self._batch = []
                else:
                    await asyncio.sleep(_RETRY)
            self._idle.set()

    async def flushed(self) -> None:
        """Return when every event so far is confirmed."""
        await self._idle.wait()

    async def _publish(self, rows: list[bytes]) -> bool:
        """Publish one batch; a batch that was stored in part is sent again whole, its events carry ids."""
        for body in journal.batches(rows):
            wire = Wire(body=body, message_id=uuid7(), content_type="application/json", app_id=APP_ID)
            fate = await self._publisher.publish(wire, self._route, purpose=Purpose.JOURNAL, deadline=self._deadline)
            if fate is not Fate.CONFIRMED:
                logs.event(log, "journal_waits", logging.WARNING, reason=fate, events=len(rows))
                return False
        return True
