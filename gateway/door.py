"""The parts of one door and what they say together: may a ticket come in now?

Owns the building of the parts, their background tasks and the order in which they start and stop. Knows no HTTP.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Final

from gateway import repetitions
from gateway.acceptance import Acceptance
from gateway.amqp import broker
from gateway.amqp.fate import Fate
from gateway.certificate import Certificate
from gateway.clients import Clients
from gateway.contract import logs
from gateway.deposits import Deposits
from gateway.membership import Membership, Presence
from gateway.metrics import Metrics
from gateway.passes import Passes
from gateway.preflight.offload import Examiner
from gateway.preflight.vocabulary import Vocabulary
from gateway.publisher import Publisher
from gateway.pulse import Pulse
from gateway.recent import Recent
from gateway.refusals import Refusals
from gateway.reloading import Reloadable, Reloader
from gateway.repetitions import Repetitions
from gateway.reporter import Reporter
from gateway.room import Room
from gateway.settings import DoorSettings
from gateway.states import States
from gateway.station.submissions import CLOCKS_DIFFER
from gateway.tickets import Tickets
from gateway.traced_publisher import TracedPublisher
from gateway.tracing import OFF, Traces
from gateway.waits import Waits
from gateway.watch import Obstacle, Watch

log = logging.getLogger("gateway.door")

START_PATIENCE: Final = 3.0
"""Seconds to find a broker at the start; afterwards the door waits for it as long as it takes."""
EXAMINATION_SECONDS: Final = 10.0
_LAST_CHANCE: Final = 0.25
"""Seconds to close, however late it is: a store that was not closed keeps the process alive."""
_AROUND_A_PUBLISH: Final = repetitions.DEADLINE + CLOCKS_DIFFER
"""Seconds beyond the publish deadline after which a submission under way counts as given up: for its record, and for
clocks that differ."""
DRAINING: Final = "draining"


class Door:
    """One door, from boot to drain."""

    def __init__(
        self,
        settings: DoorSettings,
        vocabulary: Vocabulary,
        member: Membership | None = None,
        traces: Traces = OFF,
    ) -> None:
        """`member` is for a process that is one of several of the same door."""
        name = self._name = f"lazaretto-door-{settings.node_name}-{os.getpid()}"
        self.settings = settings
        self.node = f"{settings.node_name}/door-{os.getpid()}"
        self.member = member
        self.traces = traces
        self.metrics = Metrics()
        self.limits = settings.limits
        whole_check = self.metrics.tally(self.metrics.check_seconds.labels(rule="all"))
        self.examiner = Examiner(self.limits, vocabulary, seconds=EXAMINATION_SECONDS, took=whole_check.observe)
        self.watch = Watch(
            settings.broker_url,
            settings.topology,
            name=f"{name}-watch",
            settle=settings.queue_settle,
            max_queued=settings.max_queued,
            metrics=self.metrics,
        )
        publishing: Callable[..., Publisher] = partial(TracedPublisher, traces) if traces.is_on else Publisher
        self.publisher = publishing(
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
        self.states = States(settings.store)
        self.tickets = Tickets(
            self.publisher,
            self.reporter,
            self.states,
            settings.topology,
            recent=Recent() if member is None else Recent(member.recent, member.place),
            node=self.node,
            deadline=settings.publish_deadline,
        )
        self.refusals = Refusals(self.reporter, self.limits, node=self.node, sample=settings.refused_sample)
        self.passes = Passes(self.states)
        self.deposits = Deposits(
            settings.depot, self.metrics, above=settings.attachments_inline, deadline=settings.publish_deadline
        )
        # Attachments are stored before the publish, and may take as long again.
        lease = 2 * settings.publish_deadline + _AROUND_A_PUBLISH
        self.repetitions = Repetitions(self.states, lease=lease, keep=settings.idempotency_expiry)
        self.waits = Waits(
            self.tickets.statuses,
            self.metrics,
            every=settings.status_look,
            longest=settings.status_wait,
            most=settings.max_waiting,
            shared=settings.keys is not None,
        )
        self.acceptance = Acceptance(self.tickets, self.repetitions, self.deposits, self.metrics)
        self.room = Room(settings.max_inflight_bytes)
        self.clients = Clients(settings.keys, max_body_bytes=self.limits.of(None).max_body_bytes)
        self.certificate: Certificate | None = None
        parts: dict[str, Reloadable] = {"keys": self.clients}
        if settings.tls_certificate is not None and settings.tls_key is not None:
            parts["certificate"] = self.certificate = Certificate(settings.tls_certificate, settings.tls_key)
        self.reloader = Reloader(parts, self.metrics.reloads)
        self.draining = False
        self._presence = Presence(member, lambda: self.obstacle() is None)
        self._background: list[asyncio.Task[None]] = []

    async def boot(self) -> str:
        """Reach the broker, declare, start the background tasks; return the broker's version.

        Raises BrokerUnreachable, TopologyConflict, MessageTooLarge, BadKeyFile, BadCertificate.
        """
        self.reloader.boot()
        version = await self.watch.boot(START_PATIENCE)
        # A larger one would close its channel, and fail its neighbours with it (D07).
        largest = self.limits.of(None).max_body_bytes
        try:
            if not await broker.prove_size(self.settings.broker_url, largest, name=f"{self._name}-size"):
                logs.event(log, "largest_message_unproven", logging.WARNING, bytes=largest)
        except broker.LOST as error:
            logs.event(log, "largest_message_unproven", logging.WARNING, bytes=largest, error=error)
        pulse = Pulse(self.metrics.loop_lag, self._show)
        stored = (self.states, self.repetitions, self.passes)
        own = (self.reloader, self._presence, pulse, self.examiner)
        parts = (self.watch, self.publisher, self.reporter, *stored, self.waits, *own)
        self._background = [asyncio.create_task(part.run()) for part in parts]
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

    def exposition(self) -> bytes:
        """Return the figures of the whole door, in Prometheus' text format."""
        self._show()
        if self.member is None:
            return self.metrics.exposition()
        return self.member.figures.exposition(self.member.standing.pids())

    async def drain(self, until: float) -> None:
        """Answer what is under way and hand the journal its events, until that moment of the loop's clock.

        Who still waits for a confirm then is told that it did not come.
        """
        self.draining = True
        self.waits.close()
        logs.event(log, "draining", requests=self.room.requests)
        try:
            async with asyncio.timeout_at(until):
                await self.room.emptied()
                await self.publisher.settled()
                await self.reporter.flushed()
        except TimeoutError:
            logs.event(log, "drain_ran_out", logging.WARNING, requests=self.room.requests)
        self.publisher.give_up()

    async def close(self, until: float) -> None:
        """Stop the background tasks and let go of broker, store and thread, until that moment of the loop's clock.

        Connections that do not close in time are left to the operating system.
        """
        self.examiner.close()
        self.deposits.close()
        ends = (self._stop_background, self.watch.close, self.states.close, self.traces.close)
        endings = {asyncio.create_task(end(), name=end.__qualname__) for end in ends}
        left = until - asyncio.get_running_loop().time()
        _, unended = await asyncio.wait(endings, timeout=max(_LAST_CHANCE, left))
        for ending in unended:
            logs.event(log, "left_unclosed", logging.WARNING, part=ending.get_name())
            ending.cancel()
        await asyncio.gather(*endings, return_exceptions=True)

    def _show(self) -> None:
        """Set the figures that change too often to be set at each change."""
        self.metrics.settle()
        self.metrics.inflight_publishes.set(self.publisher.inflight)
        self.metrics.inflight_bytes.set(self.room.taken)
        self.metrics.events_waiting.set(self.reporter.waiting)

    async def _stop_background(self) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
