"""A client in a process of its own: `python -m benchmarks.load --port P --requests N [--rate R]`; prints JSON.

Without `--rate` a closed loop: each connection sends as soon as it was answered. With it an open loop: request number n
is due at n / rate, and its latency counts from then, whether or not a connection was free (no coordinated omission).
How late the client itself was beyond that is told, too: it must be little, or the client is what is measured.
"""

import argparse
import asyncio
import json
import random
import resource
import sys
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from benchmarks.latency import Latencies

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


@dataclass(slots=True)
class Seen:
    """What one run of requests came to; durations in seconds."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    lateness: list[float] = field(default_factory=list)
    """Open loop: how much later than due the client looked at a request, its own doing."""
    statuses: Counter[int] = field(default_factory=Counter)


class Load:
    """Keep-alive connections to one door, and runs of requests over them, one after another."""

    def __init__(self, bodies: list[bytes]) -> None:
        self._bodies = bodies
        self._everyone: list[_Connection] = []
        self._idle: deque[_Connection] = deque()
        self._late: deque[float] = deque()
        self._loop = asyncio.get_running_loop()
        self._begin(0, 0.0)

    async def connect(self, port: int, connections: int) -> None:
        """Open the connections; raises OSError."""
        for _ in range(connections):
            _, made = await self._loop.create_connection(lambda: _Connection(self._take), "127.0.0.1", port)
            self._everyone.append(made)
        self._idle.extend(self._everyone)

    async def run(self, requests: int, rate: float = 0.0) -> Seen:
        """Send so many requests, at `rate` a second or in a closed loop (0); raises TimeoutError."""
        self._begin(requests, rate)
        begun = self._loop.time()
        if rate:
            for number in range(requests):
                self._loop.call_at(begun + number / rate, self._become_due, begun + number / rate)
        else:
            while self._idle and self._sent < requests:
                self._send(self._idle.popleft(), self._loop.time())
        async with asyncio.timeout(_WITHIN):
            await self._over.wait()
        self._seen.seconds = self._loop.time() - begun
        return self._seen

    def close(self) -> None:
        """Close all connections."""
        for connection in self._everyone:
            connection.close()

    def _begin(self, requests: int, rate: float) -> None:
        self._requests, self._rate, self._sent = requests, rate, 0
        self._over, self._seen = asyncio.Event(), Seen()

    def _become_due(self, due: float) -> None:
        self._seen.lateness.append(self._loop.time() - due)
        if self._idle:
            self._send(self._idle.popleft(), due)
        else:
            self._late.append(due)

    def _send(self, connection: _Connection, due: float) -> None:
        connection.send(self._bodies[self._sent % len(self._bodies)], due)
        self._sent += 1

    def _take(self, connection: _Connection, status: int, due: float) -> None:
        now = self._loop.time()
        self._seen.latencies.append(now - due)
        self._seen.statuses[status] += 1
        if self._late:
            self._send(connection, self._late.popleft())
        elif self._rate or self._sent == self._requests:
            self._idle.append(connection)
        else:
            self._send(connection, now)
        if len(self._seen.latencies) == self._requests:
            self._over.set()


def bodies_of(size: int) -> list[bytes]:
    """Return distinct JSON bodies of `size` bytes, the same in every run."""
    chosen, words = random.Random(9417), _PROSE.split()
    frame = json.dumps({"kind": "benchmark", "body": ""})
    texts = (" ".join(chosen.choice(words) for _ in range(size // 3)) for _ in range(_BODIES))
    return [json.dumps({"kind": "benchmark", "body": text[: size - len(frame)]}).encode() for text in texts]


def requests_of(size: int) -> list[bytes]:
    """Return HTTP requests with the bodies of `bodies_of`."""
    made = []
    for body in bodies_of(size):
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
    load = Load(requests_of(arguments.size))
    await load.connect(arguments.port, arguments.connections)
    if arguments.warm_up:
        await load.run(arguments.warm_up)
    before = _cpu_seconds()
    seen = await load.run(arguments.requests, arguments.rate)
    used = _cpu_seconds() - before
    load.close()
    report = {
        "rate": arguments.requests / seen.seconds,
        "latencies": Latencies(seen.latencies).write(),
        "late_p99_ms": Latencies(seen.lateness).ms(99) if seen.lateness else 0.0,
        "statuses": {str(status): count for status, count in seen.statuses.items()},
        "sent": arguments.warm_up + arguments.requests,
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
    parser.add_argument("--warm-up", type=int, default=0, help="requests before, in a closed loop, that nobody counts")
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second, open loop; 0: closed loop")
    return asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
