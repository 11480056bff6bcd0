"""Runs the load of `benchmarks.load` in a process of its own and reads its report."""

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.latency import Latencies
from benchmarks.programs import ROOT
from benchmarks.waiting import BenchmarkFailed

CONNECTIONS: Final = 32
WARM_UP: Final = 2 * CONNECTIONS
"""Requests before those that count: two for each connection, and enough for the client's own code to be warm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a client saw, once it was warm."""

    rate: float
    """Answers a second."""
    latencies: Latencies
    late_p99_ms: float
    """Open loop: how late the client itself was to notice that a request was due."""
    client_us: float
    """The client's own processor time, a request."""
    sent: int
    """Requests, those of the warm-up among them."""
    statuses: dict[str, int]

    @property
    def p99_ms(self) -> float:
        """What 99 % of all latencies do not exceed; in an open loop they count from when a request was due."""
        return self.latencies.ms(99)


def fill(port: int, items: int) -> None:
    """Bring exactly so many tickets of 1 KiB to a door; raises BenchmarkFailed unless each was admitted."""
    send(port, items, warm_up=0)


def send(
    port: int,
    requests: int,
    *,
    size: int = 1024,
    rate: float = 0.0,
    warm_up: int = WARM_UP,
    all_admitted: bool = True,
) -> Report:
    """Send `requests` to a door on `port`; raises BenchmarkFailed unless each was answered, by default with 202."""
    arguments = {
        "port": port,
        "requests": requests,
        "connections": CONNECTIONS,
        "size": size,
        "rate": rate,
        "warm-up": warm_up,
    }
    flags = [text for name, value in arguments.items() for text in (f"--{name}", str(value))]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load", *flags],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    if done.returncode:
        raise BenchmarkFailed(f"the client ended with {done.returncode}: {done.stderr.strip()}")
    told: dict[str, Any] = json.loads(done.stdout)
    if all_admitted and told["statuses"] != {"202": requests}:
        raise BenchmarkFailed(f"not every request was admitted: {told['statuses']}")
    return Report(**{**told, "latencies": Latencies.read(told["latencies"])})
