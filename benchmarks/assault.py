"""Sends hostile requests: `python -m benchmarks.assault --port P --count N [--rate R] [--worst]`; prints JSON.

Each goes over a connection of its own. What is not answered within a second was not meant to be: it is hung up on.
"""

import argparse
import asyncio
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Final

from benchmarks.hostile_requests import generated, worst

_WITHIN: Final = 1.0
_WHOLE_WITHIN: Final = 20.0
UNANSWERED: Final = "unanswered"


async def send(port: int, requests: Iterable[bytes], *, rate: float, at_once: int, within: float) -> Counter[str]:
    """Send them all, `at_once` or at `rate` a second; return how many got which status."""
    statuses: Counter[str] = Counter()
    free = asyncio.Semaphore(at_once)
    clock = asyncio.get_running_loop().time
    begun = clock()
    async with asyncio.TaskGroup() as sending:

        async def one(request: bytes) -> None:
            try:
                statuses[await _exchange(port, request, within)] += 1
            finally:
                free.release()

        for number, request in enumerate(requests):
            if rate:
                await asyncio.sleep(max(0.0, begun + number / rate - clock()))
            await free.acquire()
            sending.create_task(one(request))
    return statuses


async def _exchange(port: int, request: bytes, within: float) -> str:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return "refused connection"
    try:
        async with asyncio.timeout(within):
            writer.write(request)
            answer = await reader.readuntil(b"\r\n")
            while answer.split()[1:2] == [b"100"]:
                await reader.readuntil(b"\r\n\r\n" if answer == b"" else b"\r\n")
                answer = await reader.readuntil(b"\r\n")
            return answer.split()[1].decode()
    except (TimeoutError, OSError, asyncio.IncompleteReadError):
        return UNANSWERED
    finally:
        writer.transport.abort()


def main() -> int:
    """Read the command line and send."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.assault")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seed", type=int, default=9417)
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second; 0: as fast as they are answered")
    parser.add_argument("--worst", action="store_true", help="only well-formed bodies at the limit")
    chosen = parser.parse_args()
    requests: Iterable[bytes] = generated(chosen.count, seed=chosen.seed)
    if chosen.worst:
        requests = itertools.islice(itertools.cycle(worst()), chosen.count)
    within = _WHOLE_WITHIN if chosen.worst else _WITHIN
    statuses = asyncio.run(
        send(chosen.port, requests, rate=chosen.rate, at_once=64 if chosen.rate else 8, within=within)
    )
    sys.stdout.write(json.dumps(statuses) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
