"""Does a roll-out harm anybody? Nodes are replaced under load as orchestrators do it: the new one first, then SIGTERM.

Beside the same run without restarts, in turn. Counts by the handlers' own record: charged, run twice, lost.
"""

import statistics
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.house import House
from benchmarks.scale import Scale
from benchmarks.waiting import until

_WITHIN: Final = 180.0
_WORKERS: Final = 2
_ITEMS_EACH: Final = 60
"""Items for each restart: 3 s of load for two workers, in which a node starts and another one drains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """What one run through the queue came to."""

    seconds: float
    restarts: int
    """Those that came while items were waiting."""
    charged: int
    run_twice: int
    lost: int


def measure(scale: Scale) -> dict[str, Any]:
    """Run undisturbed and restarted legs in turn; counts are the worst of all legs, the ratio is a median."""
    clean, rolled = [], []
    count = _ITEMS_EACH * scale.restarts
    with House() as house:
        house.open()
        for pair in range(scale.pairs):
            clean.append(_run(house, f"clean-{pair}", count, 0))
            rolled.append(_run(house, f"rolled-{pair}", count, scale.restarts))
    return {
        "charged": max(leg.charged for leg in rolled),
        "run_twice": max(leg.run_twice for leg in rolled),
        "lost": max(leg.lost for leg in rolled),
        "throughput_ratio": round(
            statistics.median(calm.seconds / leg.seconds for leg, calm in zip(rolled, clean, strict=True)), 3
        ),
        "restarts": min(leg.restarts for leg in rolled),
        "items": count,
    }


def _run(house: House, name: str, count: int, restarts: int) -> Leg:
    tickets = [f"{name}-{number}" for number in range(count)]
    wanted = set(tickets)
    house.submit_all(tickets, "slow")
    node = house.node(workers=_WORKERS)
    done = 0
    for number in range(1, restarts + 1):
        share = max(1, count * (number - 1) // restarts)
        until(lambda: _ended(house, wanted) >= share, _WITHIN, "the load goes on")  # noqa: B023  called at once
        successor = house.node(workers=_WORKERS)
        successor.wait_for_log("consumer.consuming")
        done += _ended(house, wanted) < count
        node.stop()
        node = successor
    until(lambda: _ended(house, wanted) == count, _WITHIN, "every item has run")
    statuses = house.ends(tickets, _WITHIN)
    node.stop()
    noted = [note for note in house.notes() if note.ticket in wanted]
    starts = Counter(note.ticket for note in noted if note.what == "start")
    charged = {note.ticket for note in noted if note.attempt > 1}
    charged |= {ticket for ticket, status in statuses.items() if status.get("attempts", 0) > 1}
    return Leg(
        seconds=max(note.at for note in noted) - min(note.at for note in noted),
        restarts=done,
        charged=len(charged),
        run_twice=sum(times > 1 for times in starts.values()),
        lost=sum(status.get("state") != "done" for status in statuses.values()),
    )


def _ended(house: House, wanted: set[str]) -> int:
    return len(house.ended() & wanted)
