"""Whether a broker is ready: it shakes hands and holds a quorum queue, which an open port does not prove.

Never leaves anything behind: the queue it declares has a name of its own and is deleted again.
"""

import asyncio
from uuid import uuid4

import aio_pika
import aiormq
from aio_pika.exceptions import AMQPError

NOT_READY = (OSError, AMQPError, aiormq.AMQPError, TimeoutError, asyncio.IncompleteReadError)
"""What a broker that is down, starting or stopping answers with."""


async def is_ready(url: str, *, within: float = 5.0) -> bool:
    """Say whether the broker at `url` declares a quorum queue within `within` seconds."""
    try:
        async with asyncio.timeout(within):
            connection = await aio_pika.connect(url)
            async with connection:
                channel = await connection.channel()
                name = f"lazaretto.probe.{uuid4().hex}"
                await channel.declare_queue(name, durable=True, arguments={"x-queue-type": "quorum"})
                await channel.queue_delete(name)
    except NOT_READY:
        return False
    return True
