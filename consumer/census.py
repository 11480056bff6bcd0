"""What a node has: its workers, their memory, how they are recycled; values, and the words that a journal gets of them.

Pure. Owns the bounds of what is told: workers one by one up to `MOST_NAMED`, all of them in sums.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from consumer.intentions import Phase

MOST_NAMED: Final = 64
"""Workers that are told of one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSight:
    """One worker, as it is now."""

    pid: int
    phase: Phase
    runs: int
    """That it has begun."""
    resident: int
    """Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turnover:
    """How workers came and went since the node's start, and what their memory says of the handler."""

    recycled: int = 0
    """Healthy ones that were replaced as planned."""
    died: int = 0
    """Those that ended, or were ended, in the middle of something."""
    in_progress: int = 0
    """Workers beyond the slots, coming or leaving."""
    growth: float | None = None
    """Bytes of private memory per run; None: not known, or not enough runs yet."""
    suggested_runs: int | None = None
    """Runs until the memory limit at that growth; None: it need not matter."""
    shrunk: bool = False
    """Workers are recycled after half as many runs as within the last day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """All that an executor has at one moment."""

    workers: Sequence[WorkerSight] = ()
    mold_pid: int = 0
    """0 where there is none."""
    mold_resident: int = 0
    """Bytes."""
    turnover: Turnover = field(default_factory=Turnover)


def words(census: Census) -> dict[str, Any]:
    """Return a census as the journal has it."""
    workers = sorted(census.workers, key=lambda worker: worker.pid)
    sizes = [worker.resident for worker in workers]
    return {
        "phases": dict(sorted(Counter(worker.phase.value for worker in workers).items())),
        "workers": [asdict(worker) for worker in workers[:MOST_NAMED]],
        "memory": {
            "mold": census.mold_resident,
            "workers": sum(sizes),
            "largest_worker": max(sizes, default=0),
        },
        "mold_pid": census.mold_pid,
        "recycling": asdict(census.turnover),
    }
