"""Does recycling cost anything, or harm anybody? Workers that are replaced beside workers that never are, in turn.

Counts by the handlers' own record; places without a worker by the node's own metrics, looked at in both legs alike. And
beside it: how soon a slot whose worker was killed runs again.
"""

import contextlib
import os
import re
import signal
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from benchmarks import client
from benchmarks.depth import drain
from benchmarks.house import House, text
from benchmarks.programs import Program, workers
from benchmarks.scale import Scale
from benchmarks.waiting import BenchmarkFailed, until

_WITHIN: Final = 300.0
_WORKERS: Final = 2
_LOOK_SECONDS: Final = 0.05
_MOST_NO_OPS: Final = 5000
_KILLS_A_BATCH: Final = 10
_ITEMS_A_BATCH: Final = 300
"""Far more than two workers run while ten of them are killed: one that finds no item would be waited for in vain."""
_WORK: Final = "tickets.work"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """What one run through the queue came to."""

    seconds: float
    recycles: int
    away_share: float
    """The most that was seen, of all slots."""
    in_progress: int
    """Workers beyond the slots, the most that was seen."""
    charged: int
    run_twice: int
    lost: int


class _Watch:
    """Looks at a node's metrics until told to stop."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="watch")
        self.away = 0.0
        self.in_progress = 0
        self.recycles = 0

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Look while the context lasts, and once at its end."""
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()
            self._look()

    def _look_on(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        page = text(self._port, "/metrics")
        slots = {state: _sum(page, f'slots{{state="{state}"') for state in ("busy", "free", "away")}
        self.away = max(self.away, slots["away"] / max(1.0, sum(slots.values())))
        self.in_progress = max(self.in_progress, int(_sum(page, "recycles_in_progress")))
        self.recycles = int(_sum(page, 'worker_exits_total{cause="recycle_'))


def _sum(page: str, start: str) -> float:
    lines = (line for line in page.splitlines() if line.startswith(f"lazaretto_{start}"))
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def measure(scale: Scale) -> dict[str, Any]:
    """Run legs with and without recycling in turn; counts are the worst of all legs, ratios are medians."""
    runs = str(scale.recycle_runs)
    never, often, plain, replaced = [], [], [], []
    with House() as house:
        house.open()
        for pair in range(scale.pairs):
            never.append(_run(house, f"never-{pair}", scale.recycled_items, "0"))
            often.append(_run(house, f"often-{pair}", scale.recycled_items, runs))
            _tell(f"pair {pair}: {often[-1].seconds:.1f} s, {never[-1].seconds:.1f} s where no worker is replaced")
        for pair in range(scale.pairs):
            plain.append(_no_ops(house, min(scale.no_ops, _MOST_NO_OPS), "0"))
            replaced.append(_no_ops(house, min(scale.no_ops, _MOST_NO_OPS), runs))
            _tell(f"no-ops, pair {pair}: {replaced[-1]:.0f}/s, {plain[-1]:.0f}/s where no worker is replaced")
    refills = _refills(scale.kills)
    recycles = min(leg.recycles for leg in often)
    if not recycles or any(leg.recycles for leg in never):
        raise BenchmarkFailed(
            f"recycled {recycles} times, and {max(leg.recycles for leg in never)} times where it is off"
        )
    return {
        "throughput_ratio": _ratio([1 / leg.seconds for leg in often], [1 / leg.seconds for leg in never]),
        "no_op_ratio": _ratio(replaced, plain),
        "away_share_max": round(max(leg.away_share for leg in often), 3),
        "in_progress_max": max(leg.in_progress for leg in often),
        "charged": max(leg.charged for leg in often),
        "lost": max(leg.lost for leg in often),
        "run_twice": max(leg.run_twice for leg in often),
        "slot_refill_p99_ms": round(refills[min(len(refills) - 1, int(len(refills) * 0.99))] * 1000, 1),
        "slot_refill_p50_ms": round(statistics.median(refills) * 1000, 1),
        "runs_per_worker": scale.recycle_runs,
        "recycles": recycles,
        "items": scale.recycled_items,
        "kills": scale.kills,
    }


def _ratio(ours: list[float], base: list[float]) -> float:
    return round(statistics.median(mine / theirs for mine, theirs in zip(ours, base, strict=True)), 3)


def _run(house: House, name: str, count: int, runs: str) -> Leg:
    tickets = [f"{name}-{number}" for number in range(count)]
    wanted = set(tickets)
    house.submit_all(tickets, "good")
    node = house.node(workers=_WORKERS, LAZARETTO_RECYCLE_RUNS=runs, LAZARETTO_RECYCLE_RSS="0")
    watch = _Watch(_port(node))
    with watch.looking():
        until(lambda: _ended(house, wanted) == count, _WITHIN, "every item has run")
    statuses = house.ends(tickets, _WITHIN)
    node.stop()
    noted = [note for note in house.notes() if note.ticket in wanted]
    starts = Counter(note.ticket for note in noted if note.what == "start")
    charged = {note.ticket for note in noted if note.attempt > 1}
    charged |= {ticket for ticket, status in statuses.items() if status.get("attempts", 0) > 1}
    return Leg(
        seconds=max(note.at for note in noted) - min(note.at for note in noted),
        recycles=watch.recycles,
        away_share=watch.away,
        in_progress=watch.in_progress,
        charged=len(charged),
        run_twice=sum(times > 1 for times in starts.values()),
        lost=sum(status.get("state") != "done" for status in statuses.values()),
    )


def _ended(house: House, wanted: set[str]) -> int:
    return len(house.ended() & wanted)


def _port(node: Program) -> int:
    """Return the port of a node's health address, once it consumes."""
    node.wait_for_log("consumer.consuming")
    found = re.search(r"health=http://[\d.]+:(\d+)/", node.log.read_text("utf-8", "replace"))
    if found is None:
        raise BenchmarkFailed(f"a node that does not name its address:\n{node.tail()}")
    return int(found[1])


def _no_ops(house: House, items: int, runs: str) -> float:
    """Return items a second of handlers that do nothing, so that recycling is as large a part as it can be."""
    client.fill(house.door_port, items)
    node = house.node(handler="handle_nothing", workers=_WORKERS, LAZARETTO_RECYCLE_RUNS=runs)
    try:
        return drain(house, node, _WORK, items).rate
    finally:
        node.stop()


def _refills(kills: int) -> list[float]:
    """Kill workers while items wait, and return the seconds from each death to the first run of a new one, sorted.

    In a house of its own: whoever looks for a start looks at everything that was noted there.
    """
    refills: list[float] = []
    with House() as house:
        house.open()
        node = house.node(workers=_WORKERS, LAZARETTO_STORM="off")  # it would take so many deaths for a bad build
        for number in range(kills):
            if number % _KILLS_A_BATCH == 0:
                house.submit_all([f"refill-{number}-{each}" for each in range(_ITEMS_A_BATCH)], "slow")
            known = _until_all_have_run(house, node)
            refills.append(_refill(house, known))
        node.stop()
    return sorted(refills)


def _refill(house: House, known: set[int]) -> float:
    """Kill one of the workers that are `known`, and return the seconds until another one runs."""
    started: list[float] = []

    def another_runs() -> bool:
        started.extend(
            note.at for note in house.notes() if note.what == "start" and note.pid not in known and note.at > killed
        )
        return bool(started)

    killed = time.time()
    os.kill(min(known), signal.SIGKILL)
    until(another_runs, _WITHIN, "another worker runs")
    return min(started) - killed


def _until_all_have_run(house: House, node: Program) -> set[int]:
    """Return the workers, all of which have had a run."""
    known: set[int] = set()

    def all_have_run() -> bool:
        known.clear()
        known.update(workers(node.pid))
        return len(known) == _WORKERS and known <= {note.pid for note in house.notes()}

    until(all_have_run, _WITHIN, "every worker has had a run")
    return known


def _tell(words: str) -> None:
    """Say how far it is: the full form takes a quarter of an hour, and what ends it early must not end all of it."""
    sys.stderr.write(f"recycle: {words}\n")
