"""What doors of others share: one confirmed, persistent, mandatory aio-pika publish to a quorum queue.

Owns the connection of a peer's door. Checks nothing; concurrent publishes wait for their confirms beside each other.
"""

from collections.abc import Awaitable, Callable
from uuid import uuid4

import aio_pika

Publish = Callable[[bytes], Awaitable[str]]
"""Takes a body, returns its new id once the broker has confirmed it; raises what aio-pika raises."""


async def publisher(broker: str, queue: str) -> Publish:
    """Connect to `broker` (a URL), declare `queue` and return what publishes to it."""
    connection = await aio_pika.connect(broker)
    channel = await connection.channel(on_return_raises=True)
    await channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "quorum"})

    async def publish(body: bytes) -> str:
        ticket = str(uuid4())
        message = aio_pika.Message(
            body,
            message_id=ticket,
            content_type="application/json",
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        )
        await channel.default_exchange.publish(message, queue, mandatory=True, timeout=30)
        return ticket

    return publish
