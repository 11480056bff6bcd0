"""Random accidents for as long as one likes: `make soak`, or `python -m tests.faults.soak --repetitions 200 --seed 1`.

Each repetition sends one item that kills its worker among good ones, and meanwhile kills workers and whole nodes at
random; the seed decides everything but the machine's own timing. What must hold each time: the killer is started three
times and never more, every accepted item ends, only a worker's own item pays for its death.
"""

import argparse
import json
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final
from uuid import uuid4

import psutil

from gateway.embedded import EmbeddedBroker
from tests.support.house import House, call
from tests.support.processes import those
from tests.support.program import Program, Programs

GOOD: Final = 10
_LONGEST_WAIT: Final = 0.8
_WITHIN: Final = 90.0


class Accident(StrEnum):
    """What happens to the fleet."""

    WORKER = "worker"
    NODE = "node"
    ISOLATION = "isolation"


@dataclass(slots=True)
class Repetition:
    """What one repetition saw; `faults` is empty when all of it was right."""

    accidents: list[Accident] = field(default_factory=list)
    killed: set[int] = field(default_factory=set)
    killer_starts: int = 0
    killer_outcomes: list[str] = field(default_factory=list)
    good_charged: int = 0
    faults: list[str] = field(default_factory=list)


class Soak:
    """One installation, and accidents in it."""

    def __init__(self, house: House) -> None:
        self.house = house
        house.door(), house.station()
        self._nodes: dict[str, Program] = {"work": house.node(workers=4), "suspects": house.node("suspects")}
        house.warm_up()

    def repeat(self, name: str, seed: int) -> Repetition:
        """Run one repetition; its tickets are called after `name`."""
        dice = random.Random(seed)
        seen = Repetition()
        killer = f"{name}-killer"
        good = {f"{name}-good-{n}": dice.choice(["good", "slow"]) for n in range(GOOD)}
        tickets = [(killer, "killer"), *good.items()]
        dice.shuffle(tickets)
        for ticket, kind in tickets:
            self.house.accepted(kind, ticket)
        for accident in dice.choices(list(Accident), [3, 1, 1], k=dice.randrange(4)):
            time.sleep(dice.uniform(0, _LONGEST_WAIT))  # when it happens is part of the accident
            seen.accidents.append(accident)
            self._happen(accident, dice, seen)
        ends = self.house.balance([killer, *good], _WITHIN)
        if ends != Counter(done=GOOD, quarantined=1) or self.house.status(killer)["state"] != "quarantined":
            seen.faults.append(f"ended as {dict(ends)}, the killer as {self.house.status(killer)['state']}")
        self.judge(killer, good, seen)
        return seen

    def workers(self) -> list[psutil.Process]:
        """Return the workers of the work lane that there are now."""
        return those(self._nodes["work"].children(), lambda process: process.name() == "lz-worker")

    def _happen(self, accident: Accident, dice: random.Random, seen: Repetition) -> None:
        match accident:
            case Accident.WORKER:
                workers = self.workers()
                if workers:
                    victim = dice.choice(workers)
                    seen.killed.add(victim.pid)
                    try:
                        victim.kill()
                    except psutil.NoSuchProcess:
                        seen.killed.discard(victim.pid)
            case Accident.NODE | Accident.ISOLATION:
                lane = "work" if accident is Accident.NODE else "suspects"
                self.house.kill_family(self._nodes[lane])
                self._nodes[lane] = self.house.fleet(lane, workers=4)

    def busy(self) -> int:
        """Return how many workers of the work lane have a run."""
        address = self._nodes["work"].wait_for_log(r"health=(http://\S+)/healthz")[1]
        found = re.search(r'slots{state="busy"} (\d+)', call("GET", f"{address}/metrics").body["text"])
        return int(found[1]) if found else 0

    def judge(self, killer: str, good: Iterable[str], seen: Repetition) -> None:
        """Put into `seen` what became of one killer and its neighbours, and all that is wrong with that."""
        starts = self.house.starts(killer)
        seen.killer_starts = len(starts)
        seen.killer_outcomes = self.house.runs(killer)
        charged = [outcome for outcome in seen.killer_outcomes if outcome in {"crashed", "lost"}]
        if len(charged) != 3:
            seen.faults.append(f"the killer was charged {len(charged)} times: {seen.killer_outcomes}")
        if len({(start.generation, start.attempt) for start in starts}) != len(starts) or len(starts) > 3:
            seen.faults.append(f"the killer was started {len(starts)} times")
        nodes_died = len(seen.accidents) - seen.accidents.count(Accident.WORKER)
        told = {start.attempt for start in starts}
        for run in self.house.show(killer)["runs"]:
            # Nobody sees a start whose node dies before it, or whose worker is killed before its handler's first word.
            is_seen = run["attempt"] in told or run["outcome"] == "lost" or run["worker"] in seen.killed
            if run["outcome"] in {"crashed", "lost"} and not is_seen:
                seen.faults.append(f"the killer was charged for attempt {run['attempt']}, which nobody has started")
        for ticket in good:
            runs = [run for run in self.house.show(ticket)["runs"] if run["outcome"] in {"crashed", "lost"}]
            seen.good_charged += len(runs)
            pids = {start.attempt: start.pid for start in self.house.starts(ticket)}
            for run in runs:
                # One that was killed between its order and its handler's first word left no word; its record names it.
                workers = {run["worker"], pids.get(run["attempt"], run["worker"])}
                if run["outcome"] == "crashed" and not workers <= seen.killed:
                    seen.faults.append(f"{ticket} paid for the death of {workers}, of which {seen.killed} were killed")
            if sum(run["outcome"] == "lost" for run in runs) > nodes_died:
                seen.faults.append(f"{ticket} was lost more often than nodes died")


@contextmanager
def installation(broker_url: str, folder: Path) -> Iterator[Soak]:
    """Yield a soak on a running broker."""
    programs = Programs(folder)
    try:
        yield Soak(House(programs, broker_url, f"t{uuid4().hex[:10]}", folder))
    finally:
        programs.close()


def main() -> int:
    """Soak and tell; 1 when anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    starts: Counter[int] = Counter()
    accidents: Counter[str] = Counter()
    wrong, charged = 0, 0
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder) / "broker") as broker:
        (house := Path(folder) / "house").mkdir()
        with installation(broker.url, house) as soak:
            for number in range(asked.repetitions):
                seen = soak.repeat(f"soak-{number}", asked.seed + number)
                starts[seen.killer_starts] += 1
                accidents.update(seen.accidents)
                wrong += bool(seen.faults)
                charged += seen.good_charged
                told = ", ".join(seen.accidents) or "no accident"
                print(f"{number + 1}/{asked.repetitions} {told}: {'; '.join(seen.faults) or 'right'}", flush=True)
    print(
        json.dumps(
            {
                "repetitions": asked.repetitions,
                "seed": asked.seed,
                "killer_starts": {str(number): times for number, times in sorted(starts.items())},
                "accidents": dict(accidents),
                "good_charged": charged,
                "wrong": wrong,
            }
        )
    )
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
