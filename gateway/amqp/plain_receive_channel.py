"""The same as `receive_channel` by the client library's own channel: for a client whose inside is not the known one.

Owns the translation from the client's deliveries to ours. Costs several times as much.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Self

from aio_pika.abc import AbstractChannel, AbstractConnection
from aiormq.abc import AbstractChannel as UnderlayChannel
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic

from gateway.amqp import broker, messages, revival
from gateway.amqp.receive_channel import Taken


class PlainReceiveChannel:
    """A channel of its own on a connection, from `open` until it is closed by whoever does so first."""

    def __init__(
        self, channel: AbstractChannel, underlay: UnderlayChannel, ending: Callable[[str], None], *, revives: bool
    ) -> None:
        """`revives` says whether the broker moves consumers unheard (`revival`)."""
        self._channel = channel  # one that is collected closes its channel
        self._underlay = underlay
        self._revives = revives
        self._ending = ending
        self._acking: set[asyncio.Task[None]] = set()
        channel.close_callbacks.add(self._on_closed)
        underlay.on_consumer_cancel_callbacks.add(self._on_cancelled)

    @classmethod
    async def open(cls, connection: AbstractConnection, ending: Callable[[str], None]) -> Self:
        """Open a channel; raises one of `broker.LOST`."""
        channel = await broker.open_channel(connection, confirms=False)
        underlay = await channel.get_underlay_channel()
        return cls(channel, underlay, ending, revives=revival.is_known_of(connection))

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be done on it any more."""
        return self._channel.is_closed

    async def consume(self, queue: str, prefetch: int, taken: Taken) -> str:
        """Start a consumer with its own prefetch, and return its tag; raises one of `broker.LOST`."""

        async def take(message: DeliveredMessage) -> None:
            delivery = message.delivery
            if isinstance(delivery, Basic.Deliver):
                try:
                    wire = messages.received(message.header.properties, message.body)
                    taken(wire, delivery.delivery_tag or 0, bool(delivery.redelivered))
                except Exception as error:
                    self._ending(f"a delivery was not taken: {type(error).__name__}: {error}")
                    raise

        if self._revives:
            await self._underlay.basic_qos(prefetch_count=0, global_=True)
        await self._underlay.basic_qos(prefetch_count=prefetch)
        answer = await self._underlay.basic_consume(queue, take)
        if self._revives:
            await self._underlay.basic_qos(prefetch_count=revival.MOST, global_=True)
        return str(answer.consumer_tag)

    async def cancel(self, consumer_tag: str) -> None:
        """End a consumer: when this returns, nothing comes to it any more. Raises one of `broker.LOST`."""
        await self._underlay.basic_cancel(consumer_tag)

    def ack(self, tag: int, *, multiple: bool = False) -> None:
        """Acknowledge soon, `multiple`: and all before it; nothing where the channel is closed."""
        if not self._channel.is_closed:
            acking = asyncio.ensure_future(self._ack(tag, multiple=multiple))
            self._acking.add(acking)
            acking.add_done_callback(self._acking.discard)

    async def flush(self) -> None:
        """Return when acknowledgements go out before anything that is sent from now on."""
        if self._acking:
            await asyncio.wait(self._acking, timeout=broker.CALL_DEADLINE)

    async def close(self) -> None:
        """Close politely, once what was acknowledged is on its way."""
        await self.flush()
        await broker.within(self._channel.close(), broker.CALL_DEADLINE)

    async def _ack(self, tag: int, *, multiple: bool) -> None:
        try:
            await self._underlay.basic_ack(tag, multiple=multiple, wait=False)
        except broker.LOST as error:
            self._ending(f"{type(error).__name__}: {error}")

    def _on_closed(self, _: Any, error: BaseException | None) -> None:
        self._ending(f"{type(error).__name__}: {error}" if error else "closed")

    def _on_cancelled(self, frame: Any) -> None:
        self._ending(f"the broker cancelled the consumer {frame.consumer_tag}")
