"""One connection to one of several brokers, and the topology on it.

Owns reaching a broker, declaring what the contract names, and telling apart "unreachable", "different" and "new".
Never reconnects by itself: a connection that is lost stays lost, and its owner starts over.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import urlsplit

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection
from aiormq.abc import AbstractChannel as UnderlayChannel
from aiormq.exceptions import (
    AMQPError,
    ChannelInvalidStateError,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    PublishError,
)
from yarl import URL

from gateway.amqp.line import LineConnection
from gateway.contract.topology import Topology

HEARTBEAT: Final = 10
"""Seconds; a half-open link is noticed after three of them (the client's default would take three minutes)."""
CALL_DEADLINE: Final = 5.0
"""Seconds for one call to a broker that is there: a declare, opening a channel, closing."""

_LAST_WORDS: Final = 1.0
"""Seconds for a call that was cancelled to end."""
_DIFFERS: Final = re.compile(r"inequivalent arg '([^']+)' for (queue|exchange) '([^']+)'")
_Answer = TypeVar("_Answer")


class BrokerUnreachable(Exception):
    """No broker among the URLs took the connection in time; the text says what each one answered."""


class TopologyConflict(Exception):
    """A queue or exchange of ours exists with another definition; the text names it and the argument."""


class MessageTooLarge(Exception):
    """The broker does not take messages as large as the door's largest ticket; the text says how large that is."""


class BrokerLost(ConnectionError):
    """A call ended without an answer because its channel or connection was going away."""


LOST: Final = (AMQPError, BrokerUnreachable, OSError, asyncio.InvalidStateError, ChannelInvalidStateError)
"""What a broker call ends with when connection, channel or broker gave way (BrokerLost, TimeoutError: OSErrors)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """Messages ready in a queue, as the broker counts them now."""

    queue: str
    messages: int


async def connect(urls: Sequence[str], *, name: str, deadline: float) -> AbstractConnection:
    """Connect to the first broker that answers; `deadline` in seconds covers all of them together.

    Raises BrokerUnreachable.
    """
    answers = []
    try:
        async with asyncio.timeout(deadline):
            for url in urls:
                try:
                    return await aio_pika.connect(
                        URL(url).update_query(heartbeat=HEARTBEAT, name=name),
                        timeout=deadline / len(urls),
                        connection_class=LineConnection,
                    )
                except (AMQPError, OSError) as error:
                    answers.append(f"{shown(url)}: {type(error).__name__}: {error}")
    except TimeoutError:
        answers.append("no time left for others")
    raise BrokerUnreachable("; ".join(answers))


def shown(url: str) -> str:
    """Return a broker's URL for people, without its password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port or (5671 if parts.scheme == 'amqps' else 5672)}{parts.path}"


def version(connection: AbstractConnection) -> str:
    """Return product and version of the broker, as it introduced itself."""
    transport = connection.transport
    properties = transport.connection.server_properties if transport is not None else {}
    return " ".join(str(properties.get(name) or "unknown") for name in ("product", "version"))


async def close(connection: AbstractConnection) -> None:
    """Close politely, within a deadline; what does not close in time is left to the operating system."""
    async with owned(connection.close()) as closing:
        await asyncio.wait({closing}, timeout=CALL_DEADLINE)


@asynccontextmanager
async def owned(call: Awaitable[_Answer]) -> AsyncIterator[asyncio.Future[_Answer]]:
    """Run a call that must not outlive the block: ended with it, and its last words heard, whatever ends the block."""
    calling = asyncio.ensure_future(call)
    try:
        yield calling
    finally:
        calling.cancel()
        ended, _ = await asyncio.wait({calling}, timeout=_LAST_WORDS)
        if ended and not calling.cancelled():
            calling.exception()


async def owned_result(task: asyncio.Task[_Answer]) -> _Answer:
    """Await a task of one's own, which ends with the caller; raises what it raises, or BrokerLost when cancelled."""
    async with owned(task):
        await asyncio.wait({task})
    if task.cancelled():
        raise BrokerLost("the connection went away")
    return task.result()


async def lost(connection: AbstractConnection) -> None:
    """Return when the connection is gone, however it went."""
    transport = connection.transport
    if transport is not None:
        closing = transport.connection.closing
        try:
            await asyncio.wait({closing})
        finally:
            closing.cancel()  # made for us alone, and kept by the connection for as long as it may have to tell


async def open_channel(connection: AbstractConnection, *, confirms: bool = True) -> AbstractChannel:
    """Open a channel, in confirm mode one on which returned messages raise; raises one of `LOST`."""
    try:
        channel = connection.channel(publisher_confirms=confirms, on_return_raises=confirms)
        await within(channel.initialize(), CALL_DEADLINE)
    except RuntimeError as error:  # the client's word for a connection that has just closed
        raise BrokerUnreachable(str(error)) from error
    return channel


async def declare(connection: AbstractConnection, topology: Topology) -> frozenset[str]:
    """Declare everything and return the names of queues that did not exist before.

    A new quorum queue must settle before its confirms are trusted: a broker killed within moments of the declare has
    lost confirmed messages. Raises TopologyConflict, or one of `LOST`.
    """
    new = await _missing(connection, topology)
    channel = await open_channel(connection)
    try:
        await _declare_unasked(await channel.get_underlay_channel(), topology)
    except ChannelPreconditionFailed as error:
        raise TopologyConflict(_conflict(str(error))) from error
    except ChannelInvalidStateError:
        # Something unasked closed the channel before anybody heard why: asked one by one, it says so.
        channel = await open_channel(connection)
        await _declare_one_by_one(await channel.get_underlay_channel(), topology)
    await within(channel.close(), CALL_DEADLINE)
    return new


async def _declare_unasked(underlay: UnderlayChannel, topology: Topology) -> None:
    """Declare everything, and wait for the answers about queues only: two thirds of the round trips are saved."""
    for exchange in topology.exchanges():
        await within(
            underlay.exchange_declare(exchange.name, exchange_type=exchange.type, durable=True, nowait=True),
            CALL_DEADLINE,
        )
    for queue in topology.queues():
        await within(underlay.queue_declare(queue.name, durable=True, arguments=dict(queue.arguments)), CALL_DEADLINE)
    for binding in topology.bindings():
        if binding.to_exchange:
            bound = underlay.exchange_bind(binding.destination, binding.source, routing_key=binding.key, nowait=True)
        else:
            bound = underlay.queue_bind(binding.destination, binding.source, routing_key=binding.key, nowait=True)
        await within(bound, CALL_DEADLINE)
    # The broker works in order: with this answer, all that was unasked is done.
    await within(underlay.queue_declare(topology.queues()[0].name, passive=True), CALL_DEADLINE)


async def _declare_one_by_one(underlay: UnderlayChannel, topology: Topology) -> None:
    try:
        for exchange in topology.exchanges():
            await within(
                underlay.exchange_declare(exchange.name, exchange_type=exchange.type, durable=True), CALL_DEADLINE
            )
        for queue in topology.queues():
            await within(
                underlay.queue_declare(queue.name, durable=True, arguments=dict(queue.arguments)), CALL_DEADLINE
            )
        for binding in topology.bindings():
            bind = underlay.exchange_bind if binding.to_exchange else underlay.queue_bind
            await within(bind(binding.destination, binding.source, routing_key=binding.key), CALL_DEADLINE)
    except ChannelPreconditionFailed as error:
        raise TopologyConflict(_conflict(str(error))) from error


async def prove_size(urls: Sequence[str], size: int, *, name: str) -> bool:
    """Have the broker take a message of `size` bytes that nobody keeps; False where it did not answer.

    On a connection of its own, since one that has published is blocked by the broker's alarms. Raises MessageTooLarge,
    or one of `LOST`.
    """
    connection = await connect(urls, name=name, deadline=CALL_DEADLINE)
    try:
        channel = await open_channel(connection)
        # Nobody has a queue of this name: what the broker takes, it returns.
        message = aio_pika.Message(bytes(size))
        await within(channel.default_exchange.publish(message, f"{name}.size", mandatory=True), 2 * CALL_DEADLINE)
    except PublishError:
        return True
    except ChannelPreconditionFailed as error:
        raise MessageTooLarge(f"tickets may have {size} bytes, and the broker says: {error}") from error
    except TimeoutError:
        return False
    finally:
        await close(connection)
    return True


async def depths(channel: AbstractChannel, queues: Sequence[str]) -> list[Depth]:
    """Read how many messages wait in each queue, past the client's cache.

    Raises ChannelNotFoundEntity, which also ends the channel, when a queue does not exist; or one of `LOST`.
    """
    underlay = await channel.get_underlay_channel()
    found = []
    for queue in queues:
        answer = await within(underlay.queue_declare(queue, passive=True), CALL_DEADLINE)
        found.append(Depth(queue=queue, messages=answer.message_count or 0))
    return found


async def within(call: Awaitable[_Answer], deadline: float) -> _Answer:
    """Await a broker call under a deadline in seconds of our own; raises TimeoutError, BrokerLost, or what it raises.

    The client has calls that wait for ever on a closed channel or a blocked connection, and others that end as
    cancelled when the connection goes, which must not look like a cancellation of the caller.
    """
    calling = asyncio.ensure_future(call)
    try:
        await asyncio.wait({calling}, timeout=deadline)
    finally:
        unanswered = calling.cancel()
    if unanswered:
        raise TimeoutError("no answer from the broker")
    if calling.cancelled():
        raise BrokerLost("the connection went away")
    return calling.result()


async def _missing(connection: AbstractConnection, topology: Topology) -> frozenset[str]:
    """Return the names of queues that do not exist."""
    missing = []
    channel = await open_channel(connection)
    for queue in topology.queues():
        try:
            await depths(channel, [queue.name])
        except ChannelNotFoundEntity:  # which ends the channel
            missing.append(queue.name)
            channel = await open_channel(connection)
    await within(channel.close(), CALL_DEADLINE)
    return frozenset(missing)


def _conflict(text: str) -> str:
    found = _DIFFERS.search(text)
    if found is None:
        return text
    argument, sort, name = found.groups()
    return (
        f"{sort} {name} exists with another {argument}: {text}. Move its messages and delete it,"
        " or choose another LAZARETTO_PREFIX"
    )
