"""The door's eye on the broker: queues declared, new ones settled, depth known.

Owns the control connection, apart from the publishing one (D05). Declares what is missing, again and again, and says
why nothing may be published meanwhile. Never publishes.
"""

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from aio_pika.abc import AbstractConnection
from aiormq.exceptions import ChannelNotFoundEntity

from gateway.amqp import broker
from gateway.contract import logs
from gateway.contract.topology import Lane, Topology
from gateway.metrics import Metrics

log = logging.getLogger("gateway.watch")

LOOK_EVERY: Final = 0.5
"""Seconds between two readings of the depth (P16)."""
BLIND_AFTER: Final = 5.0
"""Seconds without a reading after which the depth counts as unknown and nothing is taken in."""
_DECLARE_EVERY: Final = 20
"""Looks between two declarations: exchanges, bindings, the ladder and the station's queues may go by hand, too."""
_RETRY: Final = 0.5
_TELL_EVERY: Final = 60.0


class Obstacle(StrEnum):
    """Why nothing may be published although a connection is there."""

    UNSEEN = "unseen"
    """Queues and depth are not known (any more)."""
    UNSETTLED = "unsettled"
    """A queue is so new that its confirms cannot be trusted yet."""
    QUEUE_FULL = "queue_full"


class Watch:
    """Keeps the topology declared and reads the depth of both lanes; `run()` until cancelled."""

    def __init__(
        self, urls: Sequence[str], topology: Topology, *, name: str, settle: float, max_queued: int, metrics: Metrics
    ) -> None:
        self._urls = urls
        self._topology = topology
        self._name = name
        self._settle = settle
        self._max_queued = max_queued
        self._metrics = metrics
        self._connection: AbstractConnection | None = None
        self._seen_at = -BLIND_AFTER
        self._settled_at = 0.0
        self._told_at = 0.0
        """When the loss that lasts was logged; 0 while there is none."""
        self._queued = 0
        self._look_now = asyncio.Event()

    def obstacle(self) -> Obstacle | None:
        """Return why nothing may be published right now, or None."""
        now = time.monotonic()
        if now - self._seen_at > BLIND_AFTER:
            return Obstacle.UNSEEN
        if now < self._settled_at:
            return Obstacle.UNSETTLED
        return Obstacle.QUEUE_FULL if self._queued >= self._max_queued else None

    def doubt(self) -> None:
        """Take note that a publish found no queue: something is missing, and may be new when it is seen again."""
        self._settled_at = time.monotonic() + self._settle
        self._look_now.set()

    async def boot(self, patience: float) -> str:
        """Connect and declare for the first time, trying for `patience` seconds; return the broker's version.

        Raises BrokerUnreachable, TopologyConflict.
        """
        give_up = time.monotonic() + patience
        while True:
            try:
                self._connection = await broker.connect(self._urls, name=self._name, deadline=broker.CALL_DEADLINE)
                await self._declare(self._connection)
                return broker.version(self._connection)
            except broker.LOST as error:
                await self.close()
                if time.monotonic() > give_up:
                    raise broker.BrokerUnreachable(str(error)) from error
                await asyncio.sleep(_RETRY)
            except broker.TopologyConflict:
                await self.close()
                raise

    async def run(self) -> None:
        """Watch until cancelled: connect, declare, look twice a second, start over at any loss."""
        try:
            while True:
                try:
                    if self._connection is None:
                        self._connection = await broker.connect(
                            self._urls, name=self._name, deadline=broker.CALL_DEADLINE
                        )
                        await self._declare(self._connection)
                    await self._look(self._connection)
                except ChannelNotFoundEntity as error:
                    logs.event(log, "queue_missing", logging.ERROR, error=error)
                    self.doubt()
                except broker.TopologyConflict as error:
                    logs.event(log, "topology_conflict", logging.ERROR, error=error)
                    self._seen_at = -BLIND_AFTER
                except broker.LOST as error:
                    self._tell_of_loss(error)
                await self.close()
                await asyncio.sleep(_RETRY)
        finally:
            await self.close()

    def _tell_of_loss(self, error: BaseException) -> None:
        """Log a change, and then once in a while that it lasts: it is tried twice a second, for hours if need be."""
        now = time.monotonic()
        if not self._told_at or now - self._told_at >= _TELL_EVERY:
            self._told_at = now
            logs.event(log, "watching_connection_lost", logging.WARNING, error=error)

    async def _declare(self, connection: AbstractConnection) -> None:
        new = await broker.declare(connection, self._topology)
        if new:
            self._settled_at = time.monotonic() + self._settle
            logs.event(log, "queues_declared", new=len(new), settled_in=self._settle)

    async def _look(self, connection: AbstractConnection) -> None:
        # Beside the looks: eighty answers of a busy broker may take longer than the door may be blind.
        declaring: list[asyncio.Task[None]] = []
        try:
            await self._look_on(connection, declaring)
        finally:
            for task in declaring:
                task.cancel()
            await asyncio.gather(*declaring, return_exceptions=True)

    async def _look_on(self, connection: AbstractConnection, declaring: list[asyncio.Task[None]]) -> None:
        channel = await broker.open_channel(connection)
        lanes = [self._topology.lane_queue(lane) for lane in Lane]
        for look in itertools.count(1):
            if self._look_now.is_set():
                self._look_now.clear()
                await self._declare(connection)
            elif look % _DECLARE_EVERY == 0 and not declaring:
                declaring.append(asyncio.create_task(self._declare(connection)))
            while declaring and declaring[0].done():
                declaring.pop(0).result()
            found = await broker.depths(channel, lanes)
            self._queued = sum(depth.messages for depth in found)
            self._metrics.queued.set(self._queued)
            self._seen_at = time.monotonic()
            if self._told_at:
                self._told_at = 0.0
                logs.event(log, "watching_again")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY):
                    await self._look_now.wait()

    async def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await broker.close(connection)
