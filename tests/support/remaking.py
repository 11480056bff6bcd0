"""Somebody deletes a queue, and somebody else makes it again before anybody has heard of its end."""

import asyncio
from collections.abc import Mapping

import aiormq

from gateway.contract.topology import Topology

QUORUM: dict[str, str | int] = {"x-queue-type": "quorum"}


async def remake(url: str, queue: str, arguments: Mapping[str, str | int]) -> None:
    """Delete a queue and have it again, with these arguments and no binding, at once."""
    connection = await aiormq.connect(url)
    try:
        deleting, making = await connection.channel(), await connection.channel()
        gone = asyncio.create_task(deleting.queue_delete(queue))
        while not gone.done():
            await making.queue_declare(queue, durable=True, arguments=dict(arguments))
        await gone
        await making.queue_declare(queue, durable=True, arguments=dict(arguments))
    finally:
        await connection.close()


async def remake_of(url: str, topology: Topology, queue: str) -> None:
    """Do so with a queue of ours: as it was, bindings included."""
    (wanted,) = (each for each in topology.queues() if each.name == queue)
    await remake(url, queue, wanted.arguments)
    connection = await aiormq.connect(url)
    try:
        channel = await connection.channel()
        for binding in topology.bindings():
            if binding.destination == queue and not binding.to_exchange:
                await channel.queue_bind(queue, binding.source, routing_key=binding.key)
    finally:
        await connection.close()
