"""What do hostile requests cost everybody else?

Well-behaved clients at a steady rate, alone and with one hostile body in ten requests, in turn; then a long row of
generated hostile requests. The door's own figures tell how late its loop was and how large it grew.
"""

import http.client
import json
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from benchmarks import client
from benchmarks.house import House
from benchmarks.programs import ROOT, resident_mib
from benchmarks.scale import Scale
from benchmarks.waiting import BenchmarkFailed

RATE: Final = 200.0
"""Requests a second of the others: well below what the door can do, as in a day's work."""
_SHARE: Final = 9
"""Of ten requests, this many are theirs."""
_WARM_UP: Final = 0.3
"""Share of the generated requests after which memory is measured for the first time."""
_BUCKET: Final = re.compile(r'^lazaretto_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)
_QUANTILE: Final = 0.999


def measure(scale: Scale) -> dict[str, Any]:
    """Return ratios of the others' p99, the lag of the loop, errors and growth."""
    alone, beside = [], []
    statuses: Counter[str] = Counter()
    others: Counter[str] = Counter()
    with House(LAZARETTO_MAX_QUEUED="10000000") as house:
        door = house.door()
        client.send(house.door_port, 200, rate=RATE)
        _assault(house, ("--worst",), count=8)
        quiet: Counter[float] = Counter()
        lag: Counter[float] = Counter()
        for _ in range(scale.pairs):
            before = _lag(house)
            alone.append(client.send(house.door_port, scale.hostile, rate=RATE).p99_ms)
            quiet.update(_since(before, _lag(house)))
            before = _lag(house)
            attacking = _begin(house, ("--worst", "--rate", str(RATE / _SHARE)), count=scale.hostile // _SHARE)
            report = client.send(house.door_port, scale.hostile, rate=RATE, all_admitted=False)
            beside.append(report.p99_ms)
            others.update(report.statuses)
            statuses.update(_end(attacking))
            lag.update(_since(before, _lag(house)))
        before = _lag(house)
        warm = int(scale.generated * _WARM_UP)
        generated = _assault(house, ("--seed", "1"), count=warm)
        size = resident_mib(door.pid)
        generated.update(_assault(house, ("--seed", "2"), count=scale.generated - warm))
        time.sleep(1.0)  # what was hung up on is let go
        growth = resident_mib(door.pid) - size
        generated_lag = _since(before, _lag(house))
    return {
        "others_p99_ratio": round(statistics.median(beside) / statistics.median(alone), 2),
        "others_p99_ms": {"alone": round(statistics.median(alone), 1), "beside": round(statistics.median(beside), 1)},
        "others_statuses": dict(others),
        "loop_lag_p999_ms": _quantile(lag),
        "loop_lag_p999_ms_alone": _quantile(quiet),
        "hostile_statuses": dict(statuses),
        "errors_5xx": sum(
            count for status, count in (others + statuses + generated).items() if status[0] == "5" and status != "503"
        ),
        "rss_growth_mib": round(growth, 1),
        "rss_mib": round(size + growth, 1),
        "generated_loop_lag_p999_ms": _quantile(generated_lag),
        "generated_statuses": dict(generated),
    }


def _begin(house: House, options: tuple[str, ...], *, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.assault", "--port", str(house.door_port), "--count", str(count), *options],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _end(attacking: subprocess.Popen[str]) -> dict[str, int]:
    try:
        out, complaints = attacking.communicate(timeout=900)
    finally:
        attacking.kill()
    if attacking.returncode:
        raise BenchmarkFailed(f"the hostile client ended with {attacking.returncode}: {complaints}")
    found: dict[str, int] = json.loads(out)
    return found


def _assault(house: House, options: tuple[str, ...], *, count: int) -> Counter[str]:
    return Counter(_end(_begin(house, options, count=count)))


def _lag(house: House) -> dict[float, int]:
    """Return how many wakes of the door's loop were at most so late, by seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", house.door_port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    return {float(bound): int(float(count)) for bound, count in _BUCKET.findall(text)}


def _since(before: dict[float, int], now: dict[float, int]) -> dict[float, int]:
    return {bound: count - before[bound] for bound, count in now.items()}


def _quantile(wakes: Mapping[float, int]) -> float:
    """The bound that 99.9 % of the wakes keep, in milliseconds: the bucket's end, so never less than the truth."""
    everything = max(wakes.values())
    return min(bound for bound, count in wakes.items() if count >= _QUANTILE * everything) * 1000
