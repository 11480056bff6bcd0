"""One broker connection from connect to loss, for the fleet.

Owns the client library's edge: connecting, declaring, consuming, confirmed publishing. Hides no reconnect: the first
loss of anything ends the session, and the supervisor starts over with a new one. Two connections, since a broker alarm
blocks even the acknowledgements of a connection that has published.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import aio_pika
from aio_pika.abc import AbstractConnection
from aiormq.abc import AbstractChannel
from aiormq.exceptions import AMQPError, ChannelInvalidStateError
from pamqp.exceptions import PAMQPException
from yarl import URL

from consumer.declaring import declare, open_channel
from consumer.outlet import Outlet
from gateway.amqp import messages
from gateway.amqp.fate import Fate
from gateway.amqp.line import LineConnection
from gateway.amqp.plain_receive_channel import PlainReceiveChannel
from gateway.amqp.receive_channel import ReceiveChannel
from gateway.contract.logs import event
from gateway.contract.topology import Route, Topology
from gateway.contract.values import value
from gateway.contract.wire import Wire

log = logging.getLogger("consumer.session")

HEARTBEAT_SECONDS: Final = 10
"""A half-open link is noticed after three of them."""
CONNECT_SECONDS: Final = 10.0
PREPARE_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 30.0
"""For a question about consumers: a broker that is alive and has no answer serves nobody, and another may."""
_REASON_SECONDS: Final = 1.0
"""A connection that goes takes its channels along a moment before it says why."""
BROKER_ERRORS: Final = (AMQPError, ChannelInvalidStateError, PAMQPException, OSError, TimeoutError)
"""All that the client raises when a link or channel is gone; RuntimeError itself is not among them on purpose."""

T = TypeVar("T")
OnDelivery = Callable[["Delivery"], None]


class BrokerUnreachable(Exception):
    """No broker of the list answered; the text names each and why."""


class SessionLost(Exception):
    """The session ended before the broker answered: whether it acted is unknown, so nothing may be acknowledged."""


@value(frozen=True, slots=True)
class Delivery:
    """One hand-over by the broker; it dies with the session that brought it (P4)."""

    wire: Wire
    tag: int
    redelivered: bool
    session: "Session"


class Session:
    """Two connections to one broker. Every wait in here ends with the session at the latest."""

    def __init__(
        self, consuming: AbstractConnection, publishing: AbstractConnection, *, confirm_deadline: float
    ) -> None:
        self._consuming, self._publishing = consuming, publishing
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._channels: list[aio_pika.abc.AbstractChannel] = []  # a channel object that is collected closes its channel
        self._intake: ReceiveChannel | PlainReceiveChannel
        self._outlet = Outlet(publishing, confirm_deadline=confirm_deadline, end=self.end)
        self.broker_version = ""

    @classmethod
    async def open(
        cls, urls: Sequence[str], topology: Topology, *, settle: float, confirm_deadline: float
    ) -> "Session":
        """Connect to the first broker that answers, declare what is missing, and wait until it can be trusted.

        Raises BrokerUnreachable or TopologyConflict.
        """
        failures: list[str] = []
        messages.read_any_properties()
        for url in urls:
            try:
                return await cls._open_at(url, topology, settle=settle, confirm_deadline=confirm_deadline)
            except BROKER_ERRORS as error:
                failures.append(f"{URL(url).with_password(None)}: {type(error).__name__}: {error}")
        raise BrokerUnreachable("; ".join(failures))

    @classmethod
    async def _open_at(cls, url: str, topology: Topology, *, settle: float, confirm_deadline: float) -> "Session":
        connections: list[AbstractConnection] = []
        try:
            for _ in range(2):
                connections.append(await _own(_connect(url), 2 * CONNECT_SECONDS))  # noqa: PERF401  one by one: closed below
            session = cls(*connections, confirm_deadline=confirm_deadline)
            await _own(session._prepare(topology, settle), PREPARE_SECONDS + settle)
        except BaseException:
            await asyncio.gather(*map(_close, connections))
            raise
        return session

    @property
    def lost(self) -> Awaitable[str]:
        """Resolves with the reason when the session has ended."""
        return asyncio.shield(self._lost)

    @property
    def is_lost(self) -> bool:
        """Tell whether the session has ended."""
        return self._lost.done()

    async def ends_within(self, seconds: float) -> bool:
        """Wait for the session's end, at most `seconds`; tell whether it came."""
        await asyncio.wait({self._lost}, timeout=seconds)
        return self._lost.done()

    def end(self, reason: str) -> None:
        """Declare the session over; whoever waits in it hears SessionLost."""
        if not self._lost.done():
            self._lost.set_result(reason)
            self._outlet.abandon()

    async def consume(self, queue: str, prefetch: int, on_delivery: OnDelivery) -> str:
        """Start a consumer with its own prefetch; returns its tag. Raises SessionLost."""

        def taken(wire: Wire, tag: int, redelivered: bool) -> None:  # noqa: FBT001  called a thousand times a second
            on_delivery(Delivery(wire, tag, redelivered, self))

        consumer_tag: str = await self.until(_own(self._intake.consume(queue, prefetch, taken), ANSWER_SECONDS))
        return consumer_tag

    async def cancel(self, consumer_tag: str) -> None:
        """End a consumer; what it was already handed stays with this session. Raises SessionLost."""
        await self.until(_own(self._intake.cancel(consumer_tag), ANSWER_SECONDS))

    async def publish(self, route: Route, wire: Wire, *, mandatory: bool = True) -> None:
        """Publish one message and wait for the broker's word: routed, stored, confirmed. Raises SessionLost.

        What is not `mandatory` may find no queue: whoever wants it has bound one.

        A nack is tried again (the broker says no for now); an unroutable message ends the session, so that the next
        one declares what somebody deleted. While the broker is blocked by an alarm the wait goes on.
        """
        pause = 0.05
        while not self.is_lost:
            fate = await self._outlet.send(wire, route)
            if fate is Fate.CONFIRMED or (fate is Fate.UNROUTABLE and not mandatory):
                return
            if fate is Fate.UNENCODABLE:
                raise ValueError(f"no frames can carry a message to {route}")
            if fate is Fate.NACKED:
                event(log, "publish.nacked", logging.WARNING, exchange=route.exchange, key=route.key)
                await self.ends_within(pause)
                pause = min(pause * 2, 5.0)
            elif fate is Fate.CLOSED:
                await self.ends_within(_REASON_SECONDS)
                self.end("the publishing channel was closed")
            else:
                self.end(f"{fate}: {route.exchange} {route.key}")
        raise SessionLost(self._lost.result())

    async def control_channel(self) -> AbstractChannel:
        """Open a channel for questions: no answer on it can break what consumes or publishes.

        On the publishing connection, so that it sees what the consuming one does not. It lasts as long as the session;
        raises one of BROKER_ERRORS.
        """
        channel = await open_channel(self._publishing)
        self._channels.append(channel)
        return await channel.get_underlay_channel()

    async def send_ack(self, delivery: Delivery) -> None:
        """Acknowledge on the channel that brought the delivery. Raises SessionLost. Called by the intake alone."""
        if delivery.session is not self or self.is_lost:
            raise SessionLost("the delivery's channel is gone")
        self._intake.ack(delivery.tag)

    async def close(self) -> None:
        """End the session and both connections; what was acknowledged before is acknowledged."""
        if not self.is_lost:
            self.end("closed")
            await self._intake.flush()
        await asyncio.gather(_close(self._consuming), _close(self._publishing))

    async def _prepare(self, topology: Topology, settle: float) -> None:
        for connection in (self._consuming, self._publishing):
            connection.close_callbacks.add(self._on_closed)
        self.broker_version = _version(self._publishing)
        if await declare(self._publishing, topology):
            event(log, "topology.declared", prefix=topology.prefix, settle=settle)
            await asyncio.sleep(settle)
        way = ReceiveChannel if ReceiveChannel.suits(self._consuming) else PlainReceiveChannel
        self._intake = await way.open(self._consuming, self.end)
        await self._outlet.open()

    async def until(self, step: Awaitable[Any]) -> Any:
        """Await one step, at most as long as the session lives; raises SessionLost."""
        running = asyncio.ensure_future(step)
        try:
            await asyncio.wait({running, self._lost}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                raise SessionLost(self._lost.result())
        finally:
            if not running.done():
                running.cancel()
        try:
            return running.result()
        except (*BROKER_ERRORS, asyncio.CancelledError) as error:
            self.end(f"{type(error).__name__}: {error}")
            raise SessionLost(str(error)) from error

    def _on_closed(self, _: Any, error: BaseException | None) -> None:
        self.end(f"{type(error).__name__}: {error}" if error else "closed")


async def _connect(url: str) -> AbstractConnection:
    return await aio_pika.connect(
        URL(url).update_query(heartbeat=HEARTBEAT_SECONDS), timeout=CONNECT_SECONDS, connection_class=LineConnection
    )


async def _own(step: Awaitable[T], seconds: float) -> T:
    """Await one step of the client under a deadline; raises TimeoutError, or ConnectionError where the client gives up.

    The client ends some operations as cancelled when their connection goes, which must not look like our own end.
    """
    running = asyncio.ensure_future(step)
    try:
        done, _ = await asyncio.wait({running}, timeout=seconds)
    finally:
        running.cancel()
    if not done:
        raise TimeoutError("no answer from the broker")
    if running.cancelled():
        raise ConnectionError("the connection went away")
    return running.result()


async def _close(connection: AbstractConnection) -> None:
    try:
        await _own(connection.close(), CONNECT_SECONDS)
    except BROKER_ERRORS as error:
        event(log, "connection.close_failed", logging.DEBUG, error=error)


def _version(connection: AbstractConnection) -> str:
    transport = connection.transport
    if transport is None:
        return ""
    properties = transport.connection.server_properties
    version = properties.get("version", "")
    return version.decode() if isinstance(version, bytes) else str(version)
