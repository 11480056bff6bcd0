"""The parts of one door and what they say together: may a ticket come in now?

Owns the building of the parts, their background tasks and the order in which they start and stop. Knows no HTTP.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Final, Self

from gateway.admission import Limits
from gateway.confirm_channel import Fate
from gateway.contract import logs
from gateway.metrics import Metrics
from gateway.preflight.offload import Examiner
from gateway.preflight.vocabulary import Vocabulary
from gateway.publisher import Publisher
from gateway.reporter import Reporter
from gateway.settings import DoorSettings
from gateway.tickets import Tickets
from gateway.watch import Obstacle, Watch

log = logging.getLogger("gateway.door")

START_PATIENCE: Final = 3.0
"""Seconds to find a broker at the start; afterwards the door waits for it as long as it takes."""
EXAMINATION_SECONDS: Final = 10.0
DRAINING: Final = "draining"


class Door:
    """One door, from boot to drain."""

    def __init__(self, settings: DoorSettings, vocabulary: Vocabulary) -> None:
        name = f"lazaretto-door-{settings.node_name}-{os.getpid()}"
        self.settings = settings
        self.metrics = Metrics()
        self.limits = Limits(
            max_body_bytes=settings.max_body_bytes,
            max_tokens=settings.max_tokens,
            max_attachments=settings.max_attachments,
            max_attachment_bytes=settings.max_body_bytes,
            accept_detected=settings.accept_detected,
        )
        self.examiner = Examiner(self.limits, vocabulary, seconds=EXAMINATION_SECONDS)
        self.watch = Watch(
            settings.broker_url,
            settings.topology,
            name=f"{name}-watch",
            settle=settings.queue_settle,
            max_queued=settings.max_queued,
            metrics=self.metrics,
        )
        self.publisher = Publisher(
            settings.broker_url,
            name=f"{name}-publish",
            metrics=self.metrics,
            max_inflight=settings.max_inflight,
            max_inflight_bytes=settings.max_inflight_bytes,
            unroutable=self.watch.doubt,
        )
        self.reporter = Reporter(
            self.publisher, settings.topology, deadline=settings.publish_deadline, metrics=self.metrics
        )
        self.tickets = Tickets(
            self.publisher,
            self.reporter,
            settings.topology,
            node=f"{settings.node_name}/door-{os.getpid()}",
            deadline=settings.publish_deadline,
            store_url=settings.store,
        )
        self.draining = False
        self._bytes = 0
        self._requests = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._background: list[asyncio.Task[None]] = []

    async def boot(self) -> str:
        """Reach the broker, declare, start the background tasks; return the broker's version.

        Raises BrokerUnreachable, TopologyConflict.
        """
        version = await self.watch.boot(START_PATIENCE)
        self._background = [asyncio.create_task(part.run()) for part in (self.watch, self.publisher, self.reporter)]
        return version

    async def failed(self) -> BaseException | None:
        """Return why a background task ended: none should while the door is open."""
        done, _ = await asyncio.wait(self._background, return_when=asyncio.FIRST_COMPLETED)
        return next(iter(done)).exception()

    def obstacle(self) -> Fate | Obstacle | str | None:
        """Return what keeps a ticket from being accepted right now, or None."""
        if self.draining:
            return DRAINING
        return self.publisher.obstacle() or self.watch.obstacle()

    @contextlib.contextmanager
    def holding(self, size: int) -> Iterator[bool]:
        """Account for one request of up to `size` bytes; False when the door holds too much already (G11)."""
        fits = self._bytes + size <= self.settings.max_inflight_bytes
        taken = size if fits else 0
        self._bytes += taken
        self._requests += 1
        self._quiet.clear()
        self.metrics.inflight_bytes.set(self._bytes)
        try:
            yield fits
        finally:
            self._bytes -= taken
            self._requests -= 1
            self.metrics.inflight_bytes.set(self._bytes)
            if self._requests == 0:
                self._quiet.set()

    async def drain(self, grace: float) -> None:
        """Answer what is under way and hand the journal its events, within `grace` seconds."""
        self.draining = True
        logs.event(log, "draining", requests=self._requests, grace=grace)
        try:
            async with asyncio.timeout(grace):
                await self._quiet.wait()
                await self.publisher.settled()
                await self.reporter.flushed()
        except TimeoutError:
            logs.event(log, "drain_ran_out", logging.WARNING, requests=self._requests)

    async def close(self) -> None:
        """Stop the background tasks and let go of broker, store and thread."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self.watch.close()
        await self.tickets.close()
        self.examiner.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
