"""The station's way out to the broker: one message at a time, persistent and confirmed.

Owns the publishing connection, which is opened when something is to be sent and given up at the first doubt. Never
says "sent" without a confirm, and tells "certainly not sent" from "perhaps".
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import PublishError
from aiormq.exceptions import ChannelNotFoundEntity

from gateway import broker
from gateway.contract.topology import Route
from gateway.contract.wire import Wire
from gateway.station.amqp import outgoing

CONNECT_DEADLINE: Final = 5.0
CONFIRM_DEADLINE: Final = 5.0


class NotSent(Exception):
    """The broker certainly does not have the message; the text says why."""


class Unconfirmed(Exception):
    """The broker may or may not have the message."""


class Sender:
    """Publishes on a connection of its own; may be used by several tasks at once."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = urls
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._opening = asyncio.Lock()

    async def send(self, route: Route, wire: Wire, *, mandatory: bool) -> None:
        """Publish and wait for the confirm; `mandatory` when a queue must take it. Raises NotSent or Unconfirmed."""
        channel = await self._open()
        publishing = asyncio.ensure_future(_publish(channel, route, wire, mandatory=mandatory))
        # A frozen link ends the client's publish in a cancellation that is not ours, hence a future of its own.
        await asyncio.wait({publishing}, timeout=CONFIRM_DEADLINE)
        if not publishing.done():
            publishing.cancel()
            await asyncio.gather(publishing, return_exceptions=True)
            await self.close()
            raise Unconfirmed(f"no confirm within {CONFIRM_DEADLINE:g} s")
        if publishing.cancelled():
            await self.close()
            raise Unconfirmed("the connection was lost before the confirm")
        error = publishing.exception()
        if error is None:
            return
        await self.close()
        match error:
            case PublishError():
                raise NotSent(f"no queue is bound to exchange {route.exchange!r} with {route.key!r}") from error
            case ChannelNotFoundEntity():
                raise NotSent(f"the broker has no exchange {route.exchange!r}") from error
            case _:
                raise Unconfirmed(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Give the connection up; the next message opens another one."""
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            await broker.close(connection)

    async def _open(self) -> AbstractChannel:
        async with self._opening:
            if self._channel is not None and not self._channel.is_closed:
                return self._channel
            await self.close()
            try:
                self._connection = await broker.connect(self._urls, name="station out", deadline=CONNECT_DEADLINE)
                self._channel = await broker.open_channel(self._connection)
            except broker.LOST as error:
                await self.close()
                raise NotSent(f"no connection: {error}") from error
            return self._channel


async def _publish(channel: AbstractChannel, route: Route, wire: Wire, *, mandatory: bool) -> None:
    exchange = await channel.get_exchange(route.exchange, ensure=False) if route.exchange else channel.default_exchange
    await exchange.publish(outgoing(wire), routing_key=route.key, mandatory=mandatory)
