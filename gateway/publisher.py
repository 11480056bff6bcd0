"""Publishing with an answer: confirmed, or the reason why not.

Owns the door's publishing connection and its channels, on which nothing else may run: a control call that fails must
not take publishes along (D05). A session lasts from connect to the first loss and then starts over. Never waits for
a broker that is away, never cancels a publish.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final

from aio_pika.abc import AbstractConnection

from gateway import broker
from gateway.confirm_channel import ConfirmChannel, Fate
from gateway.contract import logs
from gateway.contract.topology import Route
from gateway.contract.wire import Wire
from gateway.metrics import Metrics

log = logging.getLogger("gateway.publisher")

_RECONNECT_FIRST: Final = 0.1
_RECONNECT_CAP: Final = 2.0
_PROBE_EVERY: Final = 1.0
_STALLED_AFTER: Final = 1.5
"""Seconds without a single confirm, while one is due, after which the broker counts as blocked."""
_BLOCK_POLL: Final = 0.1
_LAST_WORDS: Final = 1.0
"""Seconds for the publishes of a lost connection to notice by themselves."""


class Purpose(StrEnum):
    """Each has a channel of its own, so that one cannot close the other's."""

    TICKETS = "tickets"
    JOURNAL = "journal"


class Publisher:
    """The publishing side of a door; `run()` keeps it connected, `publish()` answers in time whatever happens."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        name: str,
        metrics: Metrics,
        max_inflight: int,
        max_inflight_bytes: int,
        unroutable: Callable[[], None] = lambda: None,
    ) -> None:
        """`unroutable` is called for every message that found no queue: part of the topology is missing."""
        self._urls = urls
        self._name = name
        self._metrics = metrics
        self._max_inflight = max_inflight
        self._max_inflight_bytes = max_inflight_bytes
        self._unroutable = unroutable
        self._channels: dict[Purpose, ConfirmChannel] = {}
        self._sending: set[asyncio.Task[Fate]] = set()
        self._sending_bytes = 0
        self._blocked = False
        self._stalled = False
        self._progress_at = 0.0
        self._waits: set[asyncio.Timeout] = set()
        self._given_up = False

    def obstacle(self) -> Fate | None:
        """Return why a publish would fail right now, or None."""
        if not self._channels:
            return Fate.DISCONNECTED
        if self._blocked or self._stalled:
            return Fate.BLOCKED
        if len(self._sending) >= self._max_inflight or self._sending_bytes >= self._max_inflight_bytes:
            return Fate.OVERLOADED
        return None

    async def publish(
        self,
        wire: Wire,
        route: Route,
        *,
        purpose: Purpose,
        deadline: float,
        confirmed: Callable[[], None] = lambda: None,
    ) -> Fate:
        """Publish and return the message's fate within `deadline` seconds; raises nothing.

        `confirmed` is called when the confirm comes, even when nobody waits for it any more: after a broker's alarm a
        publish may be stored long after its deadline.
        """
        fate = Fate.TIMED_OUT if self._given_up else self.obstacle()
        if fate is None:
            sending = asyncio.create_task(self._send(wire, route, purpose, confirmed))
            self._account(sending, len(wire.body))
            await self._wait(sending, deadline)
            fate = _fate(sending)
        if fate is not Fate.CONFIRMED:
            self._metrics.publish_failures.labels(reason=fate).inc()
        return fate

    async def run(self) -> None:
        """Stay connected until cancelled: connect, serve until the first loss, start over."""
        failures = 0
        while True:
            try:
                connection = await broker.connect(self._urls, name=self._name, deadline=broker.CALL_DEADLINE)
            except broker.BrokerUnreachable as error:
                if failures == 0:
                    logs.event(log, "broker_unreachable", logging.WARNING, error=error)
                failures += 1
                pause = min(_RECONNECT_CAP, _RECONNECT_FIRST * 2 ** min(failures, 8))
                await asyncio.sleep(random.uniform(_RECONNECT_FIRST, pause))
                continue
            failures = 0
            try:
                await self._session(connection)
            except broker.LOST as error:
                logs.event(log, "publishing_session_failed", logging.WARNING, error=error)
                await asyncio.sleep(_RECONNECT_FIRST)
            finally:
                self._end_session()
                await broker.close(connection)
                await self._abandon()

    def give_up(self) -> None:
        """End every wait for a confirm now, as timed out, and begin no other: whoever waits needs an answer in time."""
        self._given_up = True
        for wait in self._waits:
            if not wait.expired():
                wait.reschedule(0)

    async def settled(self) -> None:
        """Return when no publish waits for its confirm any more."""
        while self._sending:
            await asyncio.wait(self._sending)

    async def _wait(self, sending: asyncio.Task[Fate], deadline: float) -> None:
        # Ends the wait alone: a cancelled publish says nothing about the message, which may be with the broker by now.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline) as wait:
                self._waits.add(wait)
                try:
                    await asyncio.wait({sending})
                finally:
                    self._waits.discard(wait)

    async def _session(self, connection: AbstractConnection) -> None:
        channels = {purpose: ConfirmChannel(connection) for purpose in Purpose}
        probe = ConfirmChannel(connection)
        for channel in (*channels.values(), probe):
            await channel.ready()
        self._channels = channels
        self._metrics.connected.set(1)
        logs.event(log, "publishing_connected", broker=broker.version(connection))
        watchers = [
            asyncio.create_task(broker.lost(connection)),
            asyncio.create_task(self._follow_blocking(connection)),
            asyncio.create_task(self._follow_progress(probe)),
        ]
        try:
            done, _ = await asyncio.wait(watchers, return_when=asyncio.FIRST_COMPLETED)
            logs.event(log, "publishing_connection_lost", logging.WARNING, inflight=len(self._sending))
            for watcher in done:
                watcher.result()
        finally:
            for watcher in watchers:
                watcher.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)

    def _end_session(self) -> None:
        self._channels = {}
        self._blocked = self._stalled = False
        self._metrics.connected.set(0)
        self._metrics.blocked.set(0)

    async def _abandon(self) -> None:
        """End what still waits on a connection that is gone; the client library may let it wait for ever."""
        if self._sending:
            _, left = await asyncio.wait(self._sending, timeout=_LAST_WORDS)
            for sending in left:
                sending.cancel()

    async def _follow_blocking(self, connection: AbstractConnection) -> None:
        transport = connection.transport
        while transport is not None:
            async with broker.owned(transport.connection.ready()) as ready:
                await asyncio.wait({ready}, timeout=_BLOCK_POLL / 2)
                self._set_blocked(blocked=not ready.done(), stalled=self._stalled)
                await ready
            await asyncio.sleep(_BLOCK_POLL)

    async def _follow_progress(self, channel: ConfirmChannel) -> None:
        """Prove every second that the broker works off what this connection publishes.

        An alarm is announced only to connections that have published, and a frozen broker announces nothing.
        """
        probe = Wire(body=b"")
        self._progress_at = time.monotonic()
        while True:
            # Nobody has a queue of this name: the broker returns the probe, and nothing is stored.
            async with broker.owned(channel.publish(probe, Route(exchange="", key=f"{self._name}.probe"))) as sending:
                while not sending.done():
                    await asyncio.wait({sending}, timeout=_PROBE_EVERY / 2)
                    idle = time.monotonic() - self._progress_at
                    self._set_blocked(blocked=self._blocked, stalled=not sending.done() and idle > _STALLED_AFTER)
            self._progress_at = time.monotonic()
            await asyncio.sleep(_PROBE_EVERY)

    def _set_blocked(self, *, blocked: bool, stalled: bool) -> None:
        before, now = self._blocked or self._stalled, blocked or stalled
        self._blocked, self._stalled = blocked, stalled
        if before != now:
            self._metrics.blocked.set(int(now))
            logs.event(log, "broker_blocked" if now else "broker_unblocked", logging.WARNING)

    async def _send(self, wire: Wire, route: Route, purpose: Purpose, confirmed: Callable[[], None]) -> Fate:
        channel = self._channels.get(purpose)
        if channel is None:
            return Fate.DISCONNECTED
        started = time.perf_counter()
        fate = await channel.publish(wire, route)
        if fate is Fate.CONFIRMED:
            self._progress_at = time.monotonic()
            self._metrics.confirm_seconds.observe(time.perf_counter() - started)
            confirmed()
        if fate in {Fate.UNROUTABLE, Fate.NO_EXCHANGE}:
            self._unroutable()
        return fate

    def _account(self, sending: asyncio.Task[Fate], size: int) -> None:
        self._sending.add(sending)
        self._sending_bytes += size
        self._metrics.inflight_publishes.inc()

        def release(task: asyncio.Task[Fate]) -> None:
            self._sending.discard(task)
            self._sending_bytes -= size
            self._metrics.inflight_publishes.dec()

        sending.add_done_callback(release)


def _fate(sending: asyncio.Task[Fate]) -> Fate:
    if not sending.done():
        return Fate.TIMED_OUT
    return Fate.CLOSED if sending.cancelled() else sending.result()
