"""A histogram that is observed thousands of times a second: values are kept, and brought to account together.

Owns what is kept. This is the one place that leans on how Prometheus' client works inside (a value for each bucket, and
one for the sum), since its `observe` takes two locks a value: the lock file pins it, and a test holds both to the same
figures.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from typing import Final

from prometheus_client import Histogram


class Tally:
    """Stands before a histogram without labels, or before one of its children."""

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram
        self._kept: list[float] = []
        self.observe: Final[Callable[[float], None]] = self._kept.append
        """Keeps a value; whoever shows figures calls `settle` before."""

    def settle(self) -> None:
        """Bring to account what is kept."""
        if not self._kept:
            return
        bounds = self._histogram._upper_bounds  # noqa: SLF001 - see the module
        self._histogram._sum.inc(sum(self._kept))  # noqa: SLF001
        for place, count in Counter(bisect_left(bounds, value) for value in self._kept).items():
            self._histogram._buckets[place].inc(count)  # noqa: SLF001
        self._kept.clear()
