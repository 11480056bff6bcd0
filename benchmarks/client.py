"""Runs the load of `benchmarks.load` in a process of its own and reads its report."""

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from benchmarks.programs import ROOT
from benchmarks.waiting import BenchmarkFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a client saw."""

    rate: float
    """Answers a second."""
    p50_ms: float
    p99_ms: float
    client_us: float
    """The client's own processor time, a request."""
    statuses: dict[str, int]


def send(port: int, requests: int, *, size: int = 1024, rate: float = 0.0, all_admitted: bool = True) -> Report:
    """Send `requests` to a door on `port`; raises BenchmarkFailed unless each was answered, by default with 202."""
    arguments = {"port": port, "requests": requests, "size": size, "rate": rate}
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
    return Report(**{name: told[name] for name in ("rate", "p50_ms", "p99_ms", "client_us", "statuses")})
