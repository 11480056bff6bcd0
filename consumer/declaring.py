"""Brings the broker's exchanges, queues and bindings to what the topology says, or says where they differ.

Never deletes or changes what exists: a difference is for a person to resolve.
"""

import asyncio
import re
from typing import Final

from aio_pika.abc import AbstractChannel, AbstractConnection
from aiormq.abc import AbstractChannel as UnderlayChannel
from aiormq.exceptions import ChannelInvalidStateError, ChannelNotFoundEntity, ChannelPreconditionFailed

from gateway.contract.topology import Topology

RPC_SECONDS: Final = 30.0


class TopologyConflict(Exception):
    """A queue or exchange exists with other arguments; the text names both."""


async def open_channel(
    connection: AbstractConnection, *, confirms: bool = False, on_return_raises: bool = False
) -> AbstractChannel:
    """Open a channel; raises ConnectionError where the connection is gone, which the client calls a RuntimeError."""
    try:
        channel = connection.channel(publisher_confirms=confirms, on_return_raises=on_return_raises)
        await asyncio.wait_for(channel.initialize(), RPC_SECONDS)
    except RuntimeError as error:
        raise ConnectionError(str(error)) from error
    return channel


async def declare(connection: AbstractConnection, topology: Topology) -> bool:
    """Declare everything; returns True when a queue is new. Raises TopologyConflict naming queue and argument."""
    new = await _lacks(connection, topology)
    channel = await open_channel(connection)
    try:
        await _declare_unasked(await channel.get_underlay_channel(), topology)
    except (ChannelPreconditionFailed, ChannelInvalidStateError):
        # Something differs, and a channel may be closed before anybody hears why: asked one by one, it says so.
        channel = await open_channel(connection)
        await _declare_one_by_one(await channel.get_underlay_channel(), topology)
    await channel.close()
    return new


async def _declare_unasked(raw: UnderlayChannel, topology: Topology) -> None:
    """Declare everything, and wait for the answers about queues only: two thirds of the round trips are saved."""
    patience: Final = RPC_SECONDS
    for exchange in topology.exchanges():
        await raw.exchange_declare(
            exchange.name, exchange_type=exchange.type, durable=True, nowait=True, timeout=patience
        )
    for queue in topology.queues():
        await raw.queue_declare(queue.name, durable=True, arguments=dict(queue.arguments), timeout=patience)
    for binding in topology.bindings():
        if binding.to_exchange:
            await raw.exchange_bind(binding.destination, binding.source, binding.key, nowait=True, timeout=patience)
        else:
            await raw.queue_bind(binding.destination, binding.source, binding.key, nowait=True, timeout=patience)
    # The broker works in order: with this answer, all that was unasked is done.
    await raw.queue_declare(topology.queues()[0].name, passive=True, timeout=patience)


async def _declare_one_by_one(raw: UnderlayChannel, topology: Topology) -> None:
    name = ""
    try:
        for exchange in topology.exchanges():
            name = f"exchange {exchange.name}"
            await raw.exchange_declare(exchange.name, exchange_type=exchange.type, durable=True, timeout=RPC_SECONDS)
        for queue in topology.queues():
            name = f"queue {queue.name}"
            await raw.queue_declare(queue.name, durable=True, arguments=dict(queue.arguments), timeout=RPC_SECONDS)
        for binding in topology.bindings():
            bind = raw.exchange_bind if binding.to_exchange else raw.queue_bind
            await bind(binding.destination, binding.source, binding.key, timeout=RPC_SECONDS)
    except ChannelPreconditionFailed as error:
        found = re.search(r"inequivalent arg '([^']+)'.*?received (.*?) but current is (.*)", str(error))
        difference = f"argument {found[1]}: wanted {found[2]}, found {found[3]}" if found else str(error)
        raise TopologyConflict(
            f"{name}: {difference}; delete it when empty, or use another LAZARETTO_PREFIX"
        ) from error


async def _lacks(connection: AbstractConnection, topology: Topology) -> bool:
    """Tell whether a queue is not there, and will be new."""
    channel = await open_channel(connection)
    raw = await channel.get_underlay_channel()
    for queue in topology.queues():
        try:
            await raw.queue_declare(queue.name, passive=True, timeout=RPC_SECONDS)
        except ChannelNotFoundEntity:  # which ends the channel
            return True
    await channel.close()
    return False
