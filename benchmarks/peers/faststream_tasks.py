"""FastStream on RabbitMQ with one subscriber, on a quorum queue; acknowledges after the handler."""

import asyncio
import os
import sys
from typing import Final

import uvloop
from faststream import FastStream
from faststream.rabbit import Channel, QueueType, RabbitBroker, RabbitQueue

from benchmarks.peers import acting

_QUEUE: Final = RabbitQueue(os.environ["PEER_QUEUE"], durable=True, queue_type=QueueType.QUORUM)

broker = RabbitBroker(os.environ["PEER_BROKER"], logger=None, default_channel=Channel(prefetch_count=32))
app = FastStream(broker, logger=None)
broker.subscriber(_QUEUE)(acting.item_async)


def fill(bodies: list[str]) -> None:
    """Publish each body, persistent and confirmed, 32 beside each other."""

    async def send() -> None:
        async with broker:
            await broker.declare_queue(_QUEUE)
            for start in range(0, len(bodies), 32):
                window = bodies[start : start + 32]
                await asyncio.gather(*(broker.publish(body, _QUEUE, persist=True) for body in window))

    asyncio.run(send())


def main() -> int:
    """Consume until SIGTERM."""
    uvloop.run(app.run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
