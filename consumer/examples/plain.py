"""A consumer on plain aio-pika that counts before it runs: `python -m consumer.examples.plain`.

What `Claims` says is published and confirmed first, then the delivery is acknowledged, always in this order. One item
at a time, without worker processes or fence; start more of these for more.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable

import aio_pika
from aio_pika.abc import AbstractChannel

from consumer.plain import Claims, Step
from gateway.contract.envelope import Envelope
from gateway.contract.topology import Topology


async def handle(item: Envelope) -> None:
    """Do the work; what it raises is counted."""
    item.body.decode()


async def publish(channel: AbstractChannel, step: Step) -> None:
    """Publish what a step wants; returns when the broker has confirmed it, and raises when it has not."""
    for out in step.publish:
        exchange = await channel.get_exchange(out.exchange, ensure=False) if out.exchange else channel.default_exchange
        await exchange.publish(out.message, out.key, mandatory=True)


async def main(url: str, claims: Claims, work: Callable[[Envelope], Awaitable[None]] = handle) -> None:
    """Consume the work lane until the connection ends."""
    async with await aio_pika.connect(url) as consuming, await aio_pika.connect(url) as publishing:
        intake, out = await consuming.channel(), await publishing.channel(on_return_raises=True)
        await intake.set_qos(prefetch_count=1)
        async with (await intake.get_queue(claims.queue, ensure=False)).iterator() as deliveries:
            async for delivery in deliveries:
                step = claims.take(delivery)
                await publish(out, step)
                if step.run is not None:
                    started, error = time.time(), None
                    try:
                        await work(step.run)
                    except Exception as raised:  # noqa: BLE001 - whatever it is, it is the run's ending
                        error = raised
                    await publish(out, claims.ended(step.run, error, started=started))
                await delivery.ack()


if __name__ == "__main__":
    asyncio.run(main(os.environ["LAZARETTO_BROKER_URL"], Claims(topology=Topology(prefix="tickets"))))
