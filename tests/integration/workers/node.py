"""A program with a pool and some runs, for tests that stop or kill it from outside."""

import asyncio
import os
import sys
from typing import Final

from consumer.execution import RunOrder
from consumer.pool import Pool
from tests.integration.workers.orders import order

HEARTBEAT: Final = "TEST_HEARTBEAT"
DEADLINE: Final = "TEST_DEADLINE"


async def _main(pool: Pool, orders: list[RunOrder]) -> None:
    await pool.start()
    runs = [asyncio.create_task(pool.run(one)) for one in orders]
    workers = " ".join(map(str, pool.worker_pids()))
    sys.stdout.write(f"up {os.getpid()} mold {pool.mold_pid} workers {workers}\n")
    sys.stdout.flush()
    for report in await asyncio.gather(*runs):
        sys.stdout.write(f"ended {report.outcome} {report.code}\n")
    await pool.stop()


if __name__ == "__main__":
    launched = Pool.launch(handler="tests.integration.workers.accidents:handle", slots=2, warm=False)
    limits = {
        "deadline": float(os.environ.get(DEADLINE, "600")),
        "heartbeat": float(os.environ.get(HEARTBEAT, "0")),
    }
    asyncio.run(_main(launched, [order(text, **limits) for text in sys.argv[1:]]))
