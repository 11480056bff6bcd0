"""One queue of the station being read: what has arrived and waits for its transaction.

Owns its consumers, and how much is taken before it is stored. All of it is in memory together, and each message may be
as large as the broker lets one be: so few are taken at first, and many only while they are small.
"""

import asyncio
from collections import deque
from typing import Final, NamedTuple

from aio_pika.abc import AbstractConnection

from gateway.amqp import broker
from gateway.amqp.plain_receive_channel import PlainReceiveChannel
from gateway.amqp.receive_channel import ReceiveChannel
from gateway.contract.wire import Wire

SMALL: Final = 64 * 1024
"""Bytes of a body up to which others are read ahead of their turn."""
_SHARE: Final = 2
"""What one transaction takes is half of what may be here: the other half arrives meanwhile."""


class Arrived(NamedTuple):
    """One delivery."""

    wire: Wire
    tag: int


class Inlet:
    """A channel of its own, from `open` until `ended` is set, by this or by others."""

    def __init__(self, *, queue: str, prefetch: int, ahead: int, ended: asyncio.Event) -> None:
        """`prefetch` messages may always be here, and `ahead` more while all are small."""
        self.queue = queue
        self.arrived = 0
        self._prefetch = prefetch
        self._ahead = ahead
        self._most = max(prefetch, (prefetch + ahead) // _SHARE)
        self._reading_ahead: str | None = None
        """Tag of the consumer that does."""
        self._ended = ended
        self._waiting = deque[Arrived]()
        self._there = asyncio.Event()
        self._channel: ReceiveChannel | PlainReceiveChannel | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits for its transaction."""
        return not self._waiting

    async def open(self, connection: AbstractConnection) -> None:
        """Begin to consume; raises one of `broker.LOST`."""
        way = ReceiveChannel if ReceiveChannel.suits(connection) else PlainReceiveChannel
        self._channel = await way.open(connection, lambda _: self.end())
        await self._consume(self._prefetch)

    async def batch(self) -> list[Arrived]:
        """Return what is there, at least one message; nothing once the session has ended."""
        while not self._waiting and not self._ended.is_set():
            self._there.clear()
            await self._there.wait()
        if self._ended.is_set():
            return []
        return [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]

    async def settle(self, batch: list[Arrived]) -> None:
        """Acknowledge what is stored, and all before it; raises one of `broker.LOST`."""
        if self._channel is not None:
            # One channel for one queue, in order: the last tag covers the whole batch.
            self._channel.ack(batch[-1].tag, multiple=True)
            await self._adapt(batch)

    def end(self) -> None:
        """End the session, and with it whoever waits here."""
        self._ended.set()
        self._there.set()

    async def flush(self) -> None:
        """Return when acknowledgements go out before anything that is sent from now on."""
        if self._channel is not None:
            await self._channel.flush()

    async def _adapt(self, batch: list[Arrived]) -> None:
        if self._channel is None or not self._ahead:
            return
        is_small = all(len(one.wire.body) <= SMALL for one in batch)
        if self._reading_ahead is None and is_small and len(batch) >= self._prefetch:
            self._reading_ahead = await self._consume(self._ahead)
        elif self._reading_ahead is not None and not is_small:
            tag, self._reading_ahead = self._reading_ahead, None
            await broker.within(self._channel.cancel(tag), broker.CALL_DEADLINE)

    async def _consume(self, prefetch: int) -> str:
        if self._channel is None:
            raise broker.BrokerLost("the channel is closed")
        return await broker.within(self._channel.consume(self.queue, prefetch, self._take), broker.CALL_DEADLINE)

    def _take(self, wire: Wire, tag: int, _redelivered: bool) -> None:  # noqa: FBT001 - called a thousand times a second
        self.arrived += 1
        self._waiting.append(Arrived(wire, tag))
        self._there.set()
