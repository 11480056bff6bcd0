"""A plain client of the broker, as a producer or holder that knows nothing of the project."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import aio_pika
from aio_pika.abc import AbstractChannel

from gateway.contract.topology import Route
from gateway.contract.wire import Wire

T = TypeVar("T")


def on_channel(url: str, act: Callable[[AbstractChannel], Awaitable[T]]) -> T:
    """Run `act` on a confirming channel of a fresh connection and return its answer."""

    async def run() -> T:
        connection = await aio_pika.connect(url, timeout=30)
        async with connection:
            channel = await connection.channel(on_return_raises=True)
            return await act(channel)

    return asyncio.run(run())


def publish(url: str, route: Route, wire: Wire, *, copies: int = 1) -> None:
    """Publish a message, confirmed and routed."""

    async def act(channel: AbstractChannel) -> None:
        exchange = (
            await channel.get_exchange(route.exchange, ensure=False) if route.exchange else channel.default_exchange
        )
        for _ in range(copies):
            await exchange.publish(_message(wire), route.key, mandatory=True, timeout=30)

    on_channel(url, act)


def take_and_vanish(url: str, queue: str) -> None:
    """Take one message off a queue and lose the connection without a word about it."""

    async def act(channel: AbstractChannel) -> None:
        held = await (await channel.get_queue(queue, ensure=False)).get(timeout=30)
        assert held is not None

    on_channel(url, act)


def _message(wire: Wire) -> aio_pika.Message:
    fields: dict[str, Any] = {
        "headers": dict(wire.headers),
        "message_id": wire.message_id,
        "correlation_id": wire.correlation_id,
        "type": wire.type,
        "content_type": wire.content_type,
        "content_encoding": wire.content_encoding,
        "app_id": wire.app_id,
        "timestamp": wire.timestamp,
        "delivery_mode": aio_pika.DeliveryMode.PERSISTENT,
    }
    return aio_pika.Message(wire.body, **fields)
