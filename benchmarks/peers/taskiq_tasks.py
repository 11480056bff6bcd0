"""taskiq on RabbitMQ with one task, on a quorum queue, no results kept."""

import asyncio
import os

from taskiq_aio_pika import AioPikaBroker, Queue, QueueType

from benchmarks.peers import acting

broker = AioPikaBroker(
    os.environ["PEER_BROKER"],
    qos=int(os.environ.get("PEER_PREFETCH", "32")),
    task_queues=[Queue(name=os.environ["PEER_QUEUE"], type=QueueType.QUORUM)],
)
item = broker.task(task_name="item")(acting.item_async)


def fill(bodies: list[str]) -> None:
    """Send one task for each body, each confirmed, 32 beside each other."""

    async def send() -> None:
        await broker.startup()
        for start in range(0, len(bodies), 32):
            await asyncio.gather(*(item.kiq(body) for body in bodies[start : start + 32]))
        await broker.shutdown()

    asyncio.run(send())
