"""A bare aio-pika consumer: takes a message, does nothing, acknowledges. Keeps no promise about killers or history."""

import argparse
import asyncio
import sys

import aio_pika


async def _main(arguments: argparse.Namespace) -> None:
    connection = await aio_pika.connect(arguments.broker)
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=arguments.prefetch)
    queue = await channel.get_queue(arguments.queue)
    async with queue.iterator() as messages:
        async for message in messages:
            await message.ack()


def main() -> int:
    """Consume until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.consumer")
    parser.add_argument("--broker", required=True)
    parser.add_argument("--queue", default="peer")
    parser.add_argument("--prefetch", type=int, default=32)
    asyncio.run(_main(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
