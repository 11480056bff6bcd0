"""`python -m benchmarks NAME...`: runs benchmarks, prints a table, and with `--json` one object on the last line.

Owns the command line and where results are written. Exit codes: 0 measured, 1 could not be measured, 2 usage.
"""

import argparse
import json
import platform
import re
import signal
import sys
import time
import timeit
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks import (
    admission,
    backlog,
    consume,
    fleet,
    hostile,
    isolation,
    memory,
    recovery,
    recycle,
    report,
    restart,
    scaling,
    station,
    storm,
)
from benchmarks.peers import environment, on_redis, registry
from benchmarks.scale import FULL, QUICK, TINY
from benchmarks.waiting import BenchmarkFailed

BENCHMARKS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "storm": partial(storm.measure, node=False),
    "storm --node": partial(storm.measure, node=True),
    "consume": consume.measure,
    "isolation": isolation.measure,
    "admission": admission.measure,
    "hostile": hostile.measure,
    "memory": memory.measure,
    "restart": restart.measure,
    "recycle": recycle.measure,
    "recovery": recovery.measure,
    "backlog": backlog.measure,
    "scale": scaling.measure,
    "fleet": fleet.measure,
    "station": station.measure,
}


_NUMBERS: Final = re.compile(r"\[[-\d.,\s]+\]")


def main(argv: list[str]) -> int:
    """Run what the command line names."""
    parser = _parser()
    options = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended on the way out
    scale = TINY if options.tiny else QUICK if options.quick else FULL
    chosen = list(BENCHMARKS) if options.name == "all" else [options.name + (" --node" if options.node else "")]
    try:
        wanted = registry.chosen(chosen, "" if options.tiny and options.peers is None else options.peers)
    except ValueError as unknown:
        parser.error(str(unknown))
    peers, why_without = environment.runnable(wanted)
    if why_without:
        print(f"{why_without}: measuring without (`make peers` fetches peers)", file=sys.stderr)
    failed = False
    for name in chosen:
        begun = time.monotonic()
        try:
            figures = BENCHMARKS[name](scale, peers=peers[name]) if name in peers else BENCHMARKS[name](scale)
        except BenchmarkFailed as failure:
            print(f"{name}: {failure}", file=sys.stderr)
            failed = True  # the others can still be measured
            continue
        print(_table(name, figures))
        if options.save:
            document = {
                "benchmark": name,
                "form": "tiny" if options.tiny else "quick" if options.quick else "full",
                "figures": figures,
                "machine": _machine(),
                "at": time.strftime("%F %R %Z"),
                "seconds": round(time.monotonic() - begun, 1),
            }
            path = report.RESULTS / f"{name.replace(' --', '-')}.json"
            path.parent.mkdir(exist_ok=True)
            path.write_text(_written(document), "utf-8")
        if options.json:
            print(json.dumps(figures), flush=True)
    return int(failed)


def _table(name: str, figures: dict[str, Any]) -> str:
    width = max(map(len, figures))
    shown = {key: value for key, value in figures.items() if key != "series"}  # those are for pictures
    return "\n".join([f"\n{name}", *(f"  {key:{width}}  {value}" for key, value in shown.items())])


def _written(document: dict[str, Any]) -> str:
    """Return JSON for people: indented, but a list of numbers on one line."""
    return _NUMBERS.sub(lambda found: " ".join(found[0].split()), json.dumps(document, indent=2)) + "\n"


def _machine() -> dict[str, Any]:
    packages = ("aio-pika", "aiormq", "aiohttp", "orjson", "sqlalchemy")
    return {
        "cores": psutil.cpu_count(),
        "load_average": [round(value, 2) for value in psutil.getloadavg()],
        "system": platform.platform(),
        "python": platform.python_version(),
        "loop_ns": _loop_ns(),
        "rabbitmq": _rabbitmq(),
        **{name: version(name) for name in packages},
        "peers": {name: found for name, found in environment.versions().items() if name in environment.MEASURED}
        | {on_redis.NAME: on_redis.version()},
    }


def _loop_ns() -> float:
    """Return how many processor nanoseconds a turn of a plain loop takes: the pace of this interpreter and machine."""
    turns = 1_000_000
    timed = timeit.repeat(
        "for _ in range(turns): count += 1",
        "count = 0",
        timer=time.process_time,
        number=1,
        repeat=5,
        globals={"turns": turns},
    )
    return round(min(timed) / turns * 1e9, 1)


def _rabbitmq() -> str:
    plugins = Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*")
    return ", ".join(sorted(path.name.partition("-")[2] for path in plugins)) or "unknown"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [name for name in BENCHMARKS if " " not in name]
    parser.add_argument("name", choices=[*names, "all"])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="fewer repetitions: for a look, not for a claim")
    size.add_argument("--tiny", action="store_true", help="proves that it runs, measures nothing")
    parser.add_argument("--node", action="store_true", help="storm: the killer takes the whole node with it")
    parser.add_argument("--json", action="store_true", help="the figures as one object on the last line")
    parser.add_argument("--peers", metavar="A,B", help="beside which peers; all by default, none with an empty list")
    parser.add_argument("--save", action="store_true", help="write them to benchmarks/results/ too")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
