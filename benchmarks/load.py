"""A client in a process of its own: `python -m benchmarks.load --port P --requests N [--rate R]`; prints JSON.

Without `--rate` a closed loop: each connection sends as soon as it was answered. With it an open loop: request number n
is due at n / rate, and its latency counts from then, whether or not a connection was free (no coordinated omission).
"""

import argparse
import asyncio
import json
import random
import resource
import sys
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

_PROSE: Final = (
    "the printer on third floor does not answer since monday please have a look at invoice account password login"
    " customer shipment delayed refund order number screen blank error after update cannot open attachment thanks"
)
_BODIES: Final = 64
_WITHIN: Final = 120.0


class _Connection(asyncio.Protocol):
    """One keep-alive connection with at most one request under way."""

    def __init__(self, answered: Callable[["_Connection", int, float], None]) -> None:
        self._answered = answered
        self._buffer = b""
        self._due = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  what create_connection makes
        self._transport = transport

    def send(self, request: bytes, due: float) -> None:
        """Send one request; its latency counts from `due` (loop time)."""
        assert self._transport is not None  # noqa: S101  connected before anybody has it
        self._due = due
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, rest = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(rest) >= length:
            self._buffer = b""
            self._answered(self, int(head[9:12]), self._due)

    def close(self) -> None:
        """Close it."""
        if self._transport is not None:
            self._transport.close()


class Load:
    """One run of `requests` requests."""

    def __init__(self, *, requests: int, rate: float, bodies: list[bytes]) -> None:
        self._requests, self._rate, self._bodies = requests, rate, bodies
        self._sent = 0
        self._idle: deque[_Connection] = deque()
        self._late: deque[float] = deque()
        self._over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.latencies: list[float] = []
        self.statuses: Counter[int] = Counter()

    async def run(self, port: int, connections: int) -> float:
        """Return the seconds it took; raises TimeoutError."""
        for _ in range(connections):
            _, made = await self._loop.create_connection(lambda: _Connection(self._take), "127.0.0.1", port)
            self._idle.append(made)
        everyone = list(self._idle)
        begun = self._loop.time()
        if self._rate:
            for number in range(self._requests):
                self._loop.call_at(begun + number / self._rate, self._become_due, begun + number / self._rate)
        else:
            while self._idle and self._sent < self._requests:
                self._send(self._idle.popleft(), self._loop.time())
        async with asyncio.timeout(_WITHIN):
            await self._over.wait()
        took = self._loop.time() - begun
        for connection in everyone:
            connection.close()
        return took

    def _become_due(self, due: float) -> None:
        if self._idle:
            self._send(self._idle.popleft(), due)
        else:
            self._late.append(due)

    def _send(self, connection: _Connection, due: float) -> None:
        connection.send(self._bodies[self._sent % len(self._bodies)], due)
        self._sent += 1

    def _take(self, connection: _Connection, status: int, due: float) -> None:
        now = self._loop.time()
        self.latencies.append(now - due)
        self.statuses[status] += 1
        if len(self.latencies) == self._requests:
            self._over.set()
        elif self._late:
            self._send(connection, self._late.popleft())
        elif self._rate or self._sent == self._requests:
            self._idle.append(connection)
        else:
            self._send(connection, now)


def requests_of(size: int) -> list[bytes]:
    """Return distinct HTTP requests whose JSON bodies have `size` bytes, the same in every run."""
    chosen, words = random.Random(9417), _PROSE.split()
    made = []
    for _ in range(_BODIES):
        frame = json.dumps({"kind": "benchmark", "body": ""})
        text = " ".join(chosen.choice(words) for _ in range(size // 3))[: size - len(frame)]
        body = json.dumps({"kind": "benchmark", "body": text}).encode()
        head = (
            "POST /v1/tickets HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        made.append(head.encode() + body)
    return made


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _main(arguments: argparse.Namespace) -> int:
    load = Load(requests=arguments.requests, rate=arguments.rate, bodies=requests_of(arguments.size))
    before = _cpu_seconds()
    took = await load.run(arguments.port, arguments.connections)
    used = _cpu_seconds() - before
    ordered = sorted(load.latencies)
    report = {
        "seconds": took,
        "rate": arguments.requests / took,
        "p50_ms": ordered[len(ordered) // 2] * 1000,
        "p99_ms": ordered[int(len(ordered) * 0.99)] * 1000,
        "statuses": {str(status): count for status, count in load.statuses.items()},
        "client_us": used / arguments.requests * 1e6,
    }
    sys.stdout.write(json.dumps(report) + "\n")
    return 0


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second, open loop; 0: closed loop")
    return asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
