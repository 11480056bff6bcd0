"""Brings the broker's exchanges, queues and bindings to what the topology says, or says where they differ.

Never deletes or changes what exists: a difference is for a person to resolve.
"""

import asyncio
import re
from typing import Final

from aio_pika.abc import AbstractChannel, AbstractConnection
from aiormq.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed

from gateway.contract.topology import Queue, Topology

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
    new = False
    for queue in topology.queues():
        new = not await _exists(connection, queue) or new
    channel = await open_channel(connection)
    raw = await channel.get_underlay_channel()
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
    await channel.close()
    return new


async def _exists(connection: AbstractConnection, queue: Queue) -> bool:
    channel = await open_channel(connection)
    raw = await channel.get_underlay_channel()
    try:
        await raw.queue_declare(queue.name, passive=True, timeout=RPC_SECONDS)
    except ChannelNotFoundEntity:
        return False
    await channel.close()
    return True
