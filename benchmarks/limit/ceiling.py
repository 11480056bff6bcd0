"""Compiles the programs in C beside this file and runs them against a house's broker.

Owns what is needed for that, and the words when it is not there. Never installs anything: `scripts/setup bench` does.
"""

import json
import shutil
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.house import House
from benchmarks.latency import Latencies
from benchmarks.waiting import BenchmarkFailed

SOURCES: Final = Path(__file__).resolve().parent
HEADERS: Final = (Path("/usr/include/rabbitmq-c/amqp.h"), Path("/usr/include/amqp.h"))
WINDOWS: Final = (32, 1024)
"""Messages outstanding: as many as everybody else here may have, and enough for the broker's own limit."""
_COMPILES_WITHIN: Final = 60.0
_RUNS_WITHIN: Final = 900.0


def why_missing(compiler: str = "cc", headers: Sequence[Path] = HEADERS) -> str | None:
    """Return why the limit cannot be measured on this machine, for a person; None when it can."""
    if shutil.which(compiler) is None:
        return f"there is no {compiler} to compile it"
    if not any(header.is_file() for header in headers):
        return "librabbitmq-dev is not installed"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What the program in C came to."""

    rate: float
    """Messages a second."""
    us: float
    """Its own processor microseconds, a message."""
    broker_us: float
    latencies: Latencies
    """From when a message was due to its confirm; of a consumer there are none."""


class Limit:
    """The compiled programs, in the folder of a house, used on its broker."""

    def __init__(self, house: House) -> None:
        self._house = house
        compiler = shutil.which("cc") or "cc"
        for name in ("publish", "consume"):
            done = subprocess.run(
                [compiler, "-O2", "-o", str(self._program(name)), str(SOURCES / f"{name}.c"), "-lrabbitmq"],
                capture_output=True,
                text=True,
                timeout=_COMPILES_WITHIN,
                check=False,
            )
            if done.returncode:
                raise BenchmarkFailed(f"{name}.c does not compile: {done.stderr}")

    def publish(self, queue: str, messages: int, *, window: int, size: int = 1024, rate: float = 0.0) -> Ceiling:
        """Publish to `queue`, made if it is not there, at most `window` unconfirmed; at `rate` a second unless 0."""
        return self._run("publish", messages, queue, messages, window, size, rate)

    def consume(self, queue: str, messages: int, *, prefetch: int) -> Ceiling:
        """Take so many messages, which must be there, from `queue`."""
        return self._run("consume", messages, queue, messages, prefetch)

    def _run(self, name: str, messages: int, *arguments: object) -> Ceiling:
        command = [str(self._program(name)), str(self._house.broker.node.port), *map(str, arguments)]
        broker = self._house.broker_cpu_seconds()
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_RUNS_WITHIN, check=False
        )
        if done.returncode:
            raise BenchmarkFailed(f"{name}: {done.stderr.strip()}")
        told: dict[str, Any] = json.loads(done.stdout)
        return Ceiling(
            rate=messages / told["seconds"],
            us=told["us"],
            broker_us=(self._house.broker_cpu_seconds() - broker) / messages * 1e6,
            latencies=Latencies(value / 1e6 for value in told["latencies_us"]),
        )

    def _program(self, name: str) -> Path:
        return self._house.folder / f"limit-{name}"


def told(found: Mapping[str, Sequence[Ceiling]]) -> dict[str, Any]:
    """Return medians by window, under the names that all benchmarks give to the limit."""
    return {
        "broker_limit_per_s": {window: _median([one.rate for one in legs]) for window, legs in found.items()},
        "broker_limit_us": {window: _median([one.us for one in legs]) for window, legs in found.items()},
        "broker_limit_broker_us": {window: _median([one.broker_us for one in legs]) for window, legs in found.items()},
    }


def _median(figures: list[float]) -> float:
    return round(statistics.median(figures), 1)
