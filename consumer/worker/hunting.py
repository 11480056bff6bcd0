"""The leak hunt in one worker: what Python has allocated and not given back, run after run, and where.

Owns the interpreter's tracer in this process. Sees what goes through Python's allocators; a native library that calls
malloc by itself is not seen, and shows as private memory that grows while this stands still.
"""

import gc
import tracemalloc
from typing import Final

from consumer.pipe import Grown

_FRAMES: Final = 4
"""Of each allocation's stack; each costs time and memory."""
_SITES: Final = 10
_SHOWN_FRAME: Final = 120
_NOT_OURS: Final = (tracemalloc.Filter(False, tracemalloc.__file__), tracemalloc.Filter(False, __file__))  # noqa: FBT003


class Hunt:
    """Compares a snapshot every `every` runs with the first one, which is taken when the first of them are over."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._runs = 0
        self._first: tracemalloc.Snapshot | None = None
        tracemalloc.start(_FRAMES)

    def ran(self) -> Grown | None:
        """Count a run; what has grown since the first snapshot, largest first, when it is time to say so."""
        self._runs += 1
        if self._runs % self._every:
            return None
        gc.collect()  # what waits for the collector is no leak
        snapshot = tracemalloc.take_snapshot().filter_traces(_NOT_OURS)
        if self._first is None:
            self._first = snapshot
            return None
        grown = [site for site in snapshot.compare_to(self._first, "traceback") if site.size_diff > 0]
        return Grown(
            runs=self._runs - self._every,
            traced=sum(site.size_diff for site in grown),
            sites=[
                {"where": _where(site.traceback), "bytes": site.size_diff, "blocks": max(0, site.count_diff)}
                for site in sorted(grown, key=lambda site: -site.size_diff)[:_SITES]
            ],
        )


def _where(traceback: tracemalloc.Traceback) -> str:
    """Return the place of an allocation and who called it, innermost first."""
    return " < ".join(f"{frame.filename}:{frame.lineno}"[-_SHOWN_FRAME:] for frame in reversed(traceback))
