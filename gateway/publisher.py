"""Publishing with an answer: confirmed, or the reason why not.

Owns the door's publishing connection and its channels, on which nothing else may run: a control call that fails must
not take publishes along (D05). A session lasts from connect to the first loss and then starts over. Never waits for
a broker that is away, never cancels a publish.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Final

from aio_pika.abc import AbstractConnection

from gateway.amqp import broker
from gateway.amqp.confirm_channel import ConfirmChannel
from gateway.amqp.fate import Ended, Fate
from gateway.amqp.stencil import Message
from gateway.bundles import Bundles
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
_LEAST_WAIT: Final = 0.005
"""Seconds between two looks for publishes whose time is up."""


class Purpose(StrEnum):
    """Each has a channel of its own, so that one cannot close the other's."""

    TICKETS = "tickets"
    JOURNAL = "journal"


_Outgoing = tuple[Purpose, Message, Route, Ended]


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
        self._confirm_seconds = metrics.tally(metrics.confirm_seconds)
        self._max_inflight = max_inflight
        self._max_inflight_bytes = max_inflight_bytes
        self._unroutable = unroutable
        self._channels: dict[Purpose, ConfirmChannel] = {}
        self._opened: tuple[ConfirmChannel, ...] = ()
        self._sending: set[_Sending] = set()
        """What waits for its confirm, also when nobody waits for it any more."""
        self._bundles = Bundles[_Outgoing](self._send)
        self._looks_at: asyncio.TimerHandle | None = None
        self._looks_due = 0.0
        self._idle = asyncio.Event()
        self._idle.set()
        self._sending_bytes = 0
        self._blocked = False
        self._stalled = False
        self._progress_at = 0.0
        self._given_up = False

    @property
    def inflight(self) -> int:
        """How many publishes wait for their confirm."""
        return len(self._sending)

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
        """Publish and return the message's fate within `deadline` seconds, as `send` tells it; raises nothing."""
        answer: asyncio.Future[Fate] = asyncio.get_running_loop().create_future()
        told = partial(_tell, answer)
        self.send(wire, route, told, purpose=purpose, deadline=deadline, confirmed=confirmed)
        return await answer

    def send(
        self,
        wire: Message,
        route: Route,
        told: Ended,
        *,
        purpose: Purpose,
        deadline: float,
        confirmed: Callable[[], None] = lambda: None,
    ) -> None:
        """Publish and have the message's fate told, once and within `deadline` seconds: perhaps at once.

        `confirmed` is called when the confirm comes, even when nobody waits for it any more: after a broker's alarm a
        publish may be stored long after its deadline. It is called before the fate is told.
        """
        fate = Fate.TIMED_OUT if self._given_up else self.obstacle()
        if fate is not None:
            self._fail(fate, told)
            return
        now = time.monotonic()
        sending = _Sending(told, confirmed, size=len(wire.body), started=now, due=now + deadline)
        self._sending.add(sending)
        self._idle.clear()
        self._sending_bytes += sending.size
        if self._looks_at is None or sending.due < self._looks_due:
            self._look_again(sending.due, now)
        self._bundles.put((purpose, wire, route, partial(self._ended, sending)))

    def _send(self, bundle: Sequence[_Outgoing]) -> None:
        for purpose, wire, route, ended in bundle:
            channel = self._channels.get(purpose)
            if channel is None:  # the connection was lost in this very moment
                ended(Fate.CLOSED)
            else:
                channel.publish(wire, route, ended)

    def _look_again(self, due: float, now: float) -> None:
        """Look at that moment whose time is up: one timer for all, since hardly any is ever late."""
        if self._looks_at is not None:
            self._looks_at.cancel()
        self._looks_due = due
        wait = max(_LEAST_WAIT, due - now)
        self._looks_at = asyncio.get_running_loop().call_later(wait, self._end_late_waits)

    def _end_late_waits(self) -> None:
        """End waits alone: nothing is cancelled, for a message may be with the broker by now."""
        self._looks_at = None
        now = time.monotonic()
        for sending in tuple(self._sending):
            if sending.due <= now:
                self._tell(sending, Fate.TIMED_OUT)
        waiting = [sending.due for sending in self._sending if sending.told is not None]
        if waiting:
            self._look_again(min(waiting), now)

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
                self._abandon()

    def give_up(self) -> None:
        """End every wait for a confirm now, as timed out, and begin no other: whoever waits needs an answer in time."""
        self._given_up = True
        for sending in tuple(self._sending):
            self._tell(sending, Fate.TIMED_OUT)

    async def settled(self) -> None:
        """Return when no publish waits for its confirm any more."""
        await self._idle.wait()

    async def _session(self, connection: AbstractConnection) -> None:
        channels = {purpose: ConfirmChannel(connection) for purpose in Purpose}
        probe = ConfirmChannel(connection)
        self._opened = (*channels.values(), probe)
        for channel in self._opened:
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

    def _abandon(self) -> None:
        """End what still waits on a connection that is gone."""
        self._bundles.go()
        for channel in self._opened:
            channel.abandon()
        self._opened = ()

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
            due = time.monotonic()
            async with broker.owned(channel.ask(probe, Route(exchange="", key=f"{self._name}.probe"))) as sending:
                while not sending.done():
                    await asyncio.wait({sending}, timeout=_PROBE_EVERY / 2)
                    idle = time.monotonic() - max(self._progress_at, due)
                    self._set_blocked(blocked=self._blocked, stalled=not sending.done() and idle > _STALLED_AFTER)
            self._progress_at = time.monotonic()
            await asyncio.sleep(_PROBE_EVERY)

    def _set_blocked(self, *, blocked: bool, stalled: bool) -> None:
        before, now = self._blocked or self._stalled, blocked or stalled
        self._blocked, self._stalled = blocked, stalled
        if before != now:
            self._metrics.blocked.set(int(now))
            logs.event(log, "broker_blocked" if now else "broker_unblocked", logging.WARNING)

    def _ended(self, sending: "_Sending", fate: Fate) -> None:
        """Take note of what became of a publish, whether or not somebody still waits for it."""
        self._sending.discard(sending)
        self._sending_bytes -= sending.size
        self._bundles.ended()
        if fate is Fate.CONFIRMED:
            self._progress_at = time.monotonic()
            self._confirm_seconds.observe(time.monotonic() - sending.started)
            sending.confirmed()
        elif fate in {Fate.UNROUTABLE, Fate.NO_EXCHANGE, Fate.EXCHANGE_LOST}:
            self._unroutable()
        self._tell(sending, fate)
        if not self._sending:
            self._idle.set()

    def _tell(self, sending: "_Sending", fate: Fate) -> None:
        told, sending.told = sending.told, None
        if told is None:
            return
        if fate is Fate.CONFIRMED:
            told(fate)
        else:
            self._fail(fate, told)

    def _fail(self, fate: Fate, told: Ended) -> None:
        self._metrics.publish_failures.labels(reason=fate).inc()
        told(fate)


class _Sending:
    """One publish that waits for its confirm."""

    __slots__ = ("confirmed", "due", "size", "started", "told")

    def __init__(self, told: Ended, confirmed: Callable[[], None], *, size: int, started: float, due: float) -> None:
        self.told: Ended | None = told
        """Who waits for the fate; None once it was told."""
        self.confirmed = confirmed
        self.size = size
        self.started = started
        self.due = due


def _tell(answer: asyncio.Future[Fate], fate: Fate) -> None:
    if not answer.done():
        answer.set_result(fate)
