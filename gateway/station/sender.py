"""The station's way out to the broker: persistent messages, each confirmed.

Owns the publishing connection, which is opened when something is to be sent and given up at the first doubt. Never
says "sent" without a confirm, and tells "certainly not sent" from "perhaps".
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from aio_pika.abc import AbstractConnection

from gateway.amqp import broker
from gateway.amqp.confirm_channel import ConfirmChannel
from gateway.amqp.fate import Fate
from gateway.contract.topology import Route
from gateway.contract.trace_context import TraceContext
from gateway.contract.wire import Wire
from gateway.tracing import OFF, Traces
from gateway.tracing.conventions import Error, sending

CONNECT_DEADLINE: Final = 5.0
CONFIRM_DEADLINE: Final = 5.0


class NotSent(Exception):
    """The broker certainly does not have the message; the text says why."""


class Unconfirmed(Exception):
    """The broker may or may not have the message."""


class Sender:
    """Publishes on a connection of its own; may be used by several tasks at once."""

    def __init__(self, urls: Sequence[str], traces: Traces = OFF) -> None:
        self._urls = urls
        self._traces = traces
        self._connection: AbstractConnection | None = None
        self._channels: dict[str, ConfirmChannel] = {}
        """By exchange: one that is missing ends its channel, and what waits on it alone."""
        self._opening = asyncio.Lock()

    async def send(self, route: Route, wire: Wire, *, mandatory: bool) -> None:
        """Publish and wait for the confirm; `mandatory` when a queue must take it. Raises NotSent or Unconfirmed."""
        (error,) = await self.send_all(((route, wire),), mandatory=mandatory)
        if error is not None:
            raise error

    async def send_on(self, route: Route, wire: Wire) -> None:
        """Publish an item that has been held here, as a span of its trace; raises NotSent or Unconfirmed."""
        span = self._traces.begin(sending(wire, route), TraceContext.of(wire.headers))
        (error,) = await self.send_all(((route, wire.carrying(span.context)),), mandatory=True)
        span.end({}, None if error is None else Error(type=type(error).__name__, detail=str(error)))
        if error is not None:
            raise error

    async def send_all(
        self, messages: Sequence[tuple[Route, Wire]], *, mandatory: bool
    ) -> list[NotSent | Unconfirmed | None]:
        """Publish messages of one exchange together, and return of each what `send` would raise."""
        exchange = messages[0][0].exchange
        channel = self._channels.get(exchange)
        if channel is None or channel.is_closed:
            try:
                channel = await self._open(exchange)
            except NotSent as error:
                return [error] * len(messages)
        fates = await _told(channel, messages)
        # Whoever doubted it first has closed it for all; what was opened since is not in doubt.
        if not _CERTAIN.issuperset(fates) and self._channels.get(exchange) is channel:
            await self.close()
        return [_error(fate, route, mandatory=mandatory) for (route, _), fate in zip(messages, fates, strict=True)]

    async def close(self) -> None:
        """Give the connection up; the next message opens another one."""
        connection, self._connection = self._connection, None
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.abandon()
        if connection is not None:
            await broker.close(connection)

    async def _open(self, exchange: str) -> ConfirmChannel:
        async with self._opening:
            known = self._channels.get(exchange)
            if known is not None and not known.is_closed:
                return known
            channel = await self._another()
            if channel is None:
                await self.close()
                try:
                    self._connection = await broker.connect(self._urls, name="station out", deadline=CONNECT_DEADLINE)
                    channel = ConfirmChannel(self._connection)
                    await channel.ready()
                except broker.LOST as error:
                    await self.close()
                    raise NotSent(f"no connection: {error}") from error
            self._channels[exchange] = channel
            return channel

    async def _another(self) -> ConfirmChannel | None:
        """Open a channel beside those that others wait on; None where the connection bears none any more."""
        if self._connection is None:
            return None
        channel = ConfirmChannel(self._connection)
        try:
            await channel.ready()
        except broker.LOST:
            return None
        return channel


_CERTAIN: Final = frozenset({Fate.CONFIRMED, Fate.UNROUTABLE, Fate.NO_EXCHANGE, Fate.EXCHANGE_LOST, Fate.UNENCODABLE})
"""What leaves no doubt about the connection."""


async def _told(channel: ConfirmChannel, messages: Sequence[tuple[Route, Wire]]) -> list[Fate]:
    """Publish, and return each fate once all are known or the time is up."""
    fates: dict[int, Fate] = {}
    all_told = asyncio.Event()

    def tell(place: int, fate: Fate) -> None:
        fates.setdefault(place, fate)
        if len(fates) == len(messages):
            all_told.set()

    for place, (route, wire) in enumerate(messages):
        channel.publish(wire, route, partial(tell, place))
    try:
        async with asyncio.timeout(CONFIRM_DEADLINE):
            await all_told.wait()
    except TimeoutError:
        pass  # of some of them nothing is known
    return [fates.get(place, Fate.TIMED_OUT) for place in range(len(messages))]


def _error(fate: Fate, route: Route, *, mandatory: bool) -> NotSent | Unconfirmed | None:
    match fate:
        case Fate.CONFIRMED:
            return None
        case Fate.UNROUTABLE:
            return (
                NotSent(f"no queue is bound to exchange {route.exchange!r} with {route.key!r}") if mandatory else None
            )
        case Fate.NO_EXCHANGE:
            return NotSent(f"the broker has no exchange {route.exchange!r}")
        case Fate.EXCHANGE_LOST:
            return Unconfirmed(f"exchange {route.exchange!r} went missing before the confirm")
        case Fate.UNENCODABLE:
            return NotSent("no frames can carry it")
        case Fate.TIMED_OUT:
            return Unconfirmed(f"no confirm within {CONFIRM_DEADLINE:g} s")
        case _:
            return Unconfirmed(f"no confirm: {fate}")
