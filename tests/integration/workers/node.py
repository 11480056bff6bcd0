"""A program with a pool and one run that never ends, for tests that kill it from outside."""

import asyncio
import os
import sys

from consumer.execution import RunOrder
from consumer.pool import Pool
from tests.integration.workers.orders import order


async def _main(pool: Pool, orders: list[RunOrder]) -> None:
    await pool.start()
    runs = [asyncio.create_task(pool.run(one)) for one in orders]
    workers = " ".join(map(str, pool.worker_pids()))
    sys.stdout.write(f"up {os.getpid()} mold {pool.mold_pid} workers {workers}\n")
    sys.stdout.flush()
    await asyncio.gather(*runs)


if __name__ == "__main__":
    launched = Pool.launch(handler="tests.integration.workers.accidents:handle", slots=2, warm=False)
    asyncio.run(_main(launched, [order(text, deadline=600.0) for text in sys.argv[1:]]))
