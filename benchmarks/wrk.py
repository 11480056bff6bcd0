"""The closed loop of somebody else's client, wrk, where it is installed: a check on our own, and the cheapest there is.

It sends the same bodies over as many connections, for a set time instead of a set number. Its latencies leave out what
was not sent while it waited, so that only rates and costs are taken from it.
"""

import json
import resource
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.programs import ROOT
from benchmarks.waiting import BenchmarkFailed

_SCRIPT: Final = ROOT / "benchmarks" / "post.lua"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What wrk saw."""

    requests: int
    rate: float
    client_us: float
    """Its own processor time, a request."""


def is_installed() -> bool:
    """Tell whether there is a wrk on this machine."""
    return shutil.which("wrk") is not None


def write_bodies(path: Path, bodies: Iterable[bytes]) -> Path:
    """Write what is to be sent to `path`, one body a line, and return it."""
    path.write_bytes(b"".join(body + b"\n" for body in bodies))
    return path


def send(port: int, seconds: int, connections: int, bodies: Path) -> Report:
    """Send for so many seconds; raises BenchmarkFailed unless every answer was a good one."""
    before = _cpu_seconds()
    done = subprocess.run(
        [
            *("wrk", "--threads", "1", "--connections", str(connections), "--duration", f"{seconds}s"),
            *("--script", str(_SCRIPT), f"http://127.0.0.1:{port}/v1/tickets", "--", str(bodies)),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds + 60,
        check=False,
    )
    used = _cpu_seconds() - before
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise BenchmarkFailed(f"wrk ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")
    told: dict[str, Any] = json.loads(lines[-1])
    if told["refused"] or told["broken"] or not told["requests"]:
        raise BenchmarkFailed(f"not every request of wrk was admitted: {told}")
    return Report(
        requests=told["requests"],
        rate=told["requests"] / told["seconds"],
        client_us=used / told["requests"] * 1e6,
    )


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
