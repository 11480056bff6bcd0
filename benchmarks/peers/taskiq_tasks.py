"""taskiq on RabbitMQ with a task that does nothing, on a quorum queue, no results kept."""

import asyncio
import os

from taskiq_aio_pika import AioPikaBroker, Queue, QueueType

broker = AioPikaBroker(
    os.environ["PEER_BROKER"],
    qos=32,
    task_queues=[Queue(name=os.environ["PEER_QUEUE"], type=QueueType.QUORUM)],
)


@broker.task(task_name="nothing")
async def nothing(body: str) -> None:
    """Do nothing with `body`."""


def fill(bodies: list[str]) -> None:
    """Send one task for each body, each confirmed, 32 beside each other."""

    async def send() -> None:
        await broker.startup()
        for start in range(0, len(bodies), 32):
            await asyncio.gather(*(nothing.kiq(body) for body in bodies[start : start + 32]))
        await broker.shutdown()

    asyncio.run(send())
