"""The same as `publish_channel` by the client library's own publish: for a client whose inside is not the known one.

Owns the translation from what the client raises to what happened. Costs four times as much.
"""

import asyncio
from typing import Self

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import ChannelNotFoundEntity, DeliveryError, PublishError

from gateway.amqp import broker
from gateway.amqp.fate import Ended, Fate
from gateway.amqp.stencil import Message, wire_of
from gateway.contract.topology import Route
from gateway.contract.wire import Wire, encodable


class PlainChannel:
    """A channel of its own on a connection, from `open` until it is closed by whoever does so first."""

    def __init__(self, channel: AbstractChannel) -> None:
        self._channel = channel
        self._sending: set[asyncio.Task[Fate]] = set()
        self._newest = 0

    @classmethod
    async def open(cls, connection: AbstractConnection) -> Self:
        """Open a channel in confirm mode; raises one of `broker.LOST`."""
        return cls(await broker.open_channel(connection))

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be published on it any more."""
        return self._channel.is_closed

    @property
    def pending(self) -> int:
        """How many publishes wait for their confirm."""
        return len(self._sending)

    def publish(self, wire: Message, route: Route, ended: Ended) -> None:
        """Publish soon; `ended` is told the fate, for certain, and once."""
        self._newest += 1
        sending = asyncio.create_task(self._publish(wire_of(wire), route, self._newest))
        self._sending.add(sending)

        def done(task: asyncio.Task[Fate]) -> None:
            self._sending.discard(task)
            # A frozen link ends a publish as cancelled.
            ended(Fate.CLOSED if task.cancelled() else task.result())

        sending.add_done_callback(done)

    def abandon(self) -> None:
        """End what still waits: its connection is gone, and the client may let it wait for ever."""
        for sending in self._sending:
            sending.cancel()

    async def close(self) -> None:
        """Close politely; what still waits is given up."""
        try:
            await broker.within(self._channel.close(), broker.CALL_DEADLINE)
        except broker.LOST:
            self.abandon()

    async def _publish(self, wire: Wire, route: Route, number: int) -> Fate:
        try:
            exchange = await self._channel.get_exchange(route.exchange, ensure=False)
            await exchange.publish(_message(wire), route.key, mandatory=True)
        except PublishError:
            return Fate.UNROUTABLE
        except DeliveryError:
            return Fate.NACKED
        except ChannelNotFoundEntity:
            return Fate.NO_EXCHANGE if number == self._newest else Fate.EXCHANGE_LOST
        except broker.LOST:
            return Fate.CLOSED
        return Fate.CONFIRMED


def _message(wire: Wire) -> aio_pika.Message:
    return aio_pika.Message(
        wire.body,
        headers=encodable(wire.headers),
        message_id=wire.message_id,
        correlation_id=wire.correlation_id,
        type=wire.type,
        content_type=wire.content_type,
        content_encoding=wire.content_encoding,
        timestamp=wire.timestamp,
        app_id=wire.app_id,
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
    )
