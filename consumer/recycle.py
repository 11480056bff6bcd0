"""When a worker has served long enough, what its memory says about the handler, and when a mold has grown.

Pure: facts in, a decision out; clock readings and randomness are handed in. Owns the rules of recycling (C14, C15):
limits with a jitter of their own for each worker, a limit under the idle memory that is no limit, growth per run by
least squares, and the interval between recycles.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from consumer.intentions import Parting

JITTER: Final = 0.1
"""Of both limits, up and down."""
LOOK_SECONDS: Final = 2.0
"""A look at private memory walks all pages of the worker: about 2 ms for 150 MiB. Resident memory, which is more, costs
a microsecond, so as long as that stands still a look every so often is enough."""
LOOK_STEP: Final = 1 << 20
"""Bytes of growth after which a look does not wait."""
WARM_UP_RUNS: Final = 10
"""Runs in which a worker fills its caches; they say nothing about the next five hundred."""
_SHARE: Final = 10
_MOLD_SHARE: Final = 4
_SERVES: Final = 10
_MOST_RUNS: Final = 1_000_000
_MEMORABLE: Final = 32
"""Workers that are gone whose growth still counts."""
_HOUR: Final = 3600.0
_DAY_HOURS: Final = 24
_ENOUGH: Final = 3
"""Recycles in an hour before it is compared with another one."""


def allowance(slots: int) -> int:
    """Return how many workers may be away at once, or be there beyond the slots: a tenth, at least one."""
    return max(1, slots // _SHARE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a worker may come to before it is recycled; 0 means never."""

    runs: int = 0
    rss: int = 0
    """Bytes of its private memory, between runs."""


NEVER: Final = Limits()


@dataclass(slots=True)
class Growth:
    """Least squares of memory over runs, in sums that do not grow themselves."""

    samples: int = 0
    _x: float = 0.0
    _y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0

    def add(self, runs: int, private: int) -> None:
        """Take one sample into the sums of deviations from the mean (Welford, 1962)."""
        self.samples += 1
        step = runs - self._x
        self._x += step / self.samples
        self._y += (private - self._y) / self.samples
        self.xx += step * (runs - self._x)
        self.xy += step * (private - self._y)


def slope(growths: Iterable[Growth]) -> float | None:
    """Return the bytes per run that all these workers have in common, each from a level of its own; None: unknown."""
    counted = list(growths)
    spread = sum(one.xx for one in counted)
    return sum(one.xy for one in counted) / spread if spread > 0 else None


@dataclass(slots=True, kw_only=True)
class Wear:
    """One worker's limits, and what has been seen of it."""

    runs_limit: int
    """0: none."""
    rss_limit: int
    """Bytes, 0: none."""
    baseline: int
    """Bytes that were private before its first run."""
    runs: int = 0
    private: int = 0
    """Bytes, at the last look."""
    growth: Growth = field(default_factory=Growth)
    worn: Parting | None = None
    """Why it is to be recycled; stays what it has become."""
    _looked_at: float = 0.0
    _highest: int = 0

    def ran(self, resident: int, now: float) -> bool:
        """Count a run; whether private memory is to be looked at now. `now` is on any steady clock.

        It is when it may have become what matters, and once when the last run is over.
        """
        self.runs += 1
        if self.runs_limit and self.runs >= self.runs_limit:
            self.worn = Parting.RUNS
        is_due = now - self._looked_at >= LOOK_SECONDS or resident >= self._highest + LOOK_STEP
        return is_due or self.worn is not None

    def looked(self, *, private: int, resident: int, now: float) -> None:
        """Note what was seen between two runs; a process that is over has no memory, and that is no news."""
        if private == 0:
            return
        self.private, self._looked_at = private, now
        self._highest = max(self._highest, resident)
        if self.runs > WARM_UP_RUNS:
            self.growth.add(self.runs, private)
        if self.rss_limit and private > self.rss_limit:
            self.worn = self.worn or Parting.MEMORY


@dataclass(slots=True)
class Recycling:
    """What is known of all workers of a fleet. `draw` gives numbers from 0 up to 1, for the jitter."""

    limits: Limits
    draw: Callable[[], float]
    _departed: deque[Growth] = field(default_factory=lambda: deque(maxlen=_MEMORABLE))
    _baseline: int = 0

    def begin(self, *, private: int, resident: int, now: float) -> Wear:
        """Return the limits of a new worker that has this memory before its first run.

        A limit that is below it already could only recycle it after every run, so that worker has none.
        """
        self._baseline = private
        runs, rss = self._jittered(self.limits.runs), self._jittered(self.limits.rss)
        wear = Wear(runs_limit=runs, rss_limit=rss if rss > private else 0, baseline=private)
        wear.looked(private=private, resident=resident, now=now)
        return wear

    def is_pointless(self, private: int) -> bool:
        """Whether the memory limit, or its jitter, is below what a worker has before its first run."""
        return 0 < self.limits.rss * (1 - JITTER) <= private

    def end(self, wear: Wear) -> None:
        """A worker is gone; what its growth has shown is kept for a while."""
        if wear.growth.xx > 0:
            self._departed.append(wear.growth)

    def growth(self, living: Iterable[Wear]) -> float | None:
        """Return bytes per run, over the living workers and the last that have left; None: not enough samples."""
        return slope([*self._departed, *(wear.growth for wear in living)])

    def suggested_runs(self, growth: float | None) -> int | None:
        """Return after how many runs a worker would reach the memory limit at this growth; None: it need not matter."""
        room = self.limits.rss - self._baseline
        if growth is None or growth <= 0 or room <= 0 or room / growth > _MOST_RUNS:
            return None
        return max(1, int(room / growth))

    def mold_is_worn(self, *, grown: int, served: float, took: float) -> bool:
        """Whether a mold that has `grown` by so many bytes is to be replaced.

        Every worker inherits that growth and none of them counts it, so it is a fourth of a worker's limit. One that
        `took` so many seconds to load must have `served` for ten times as long, or a handler that makes every mold grow
        at once would have molds loaded all the time; unless it has grown by the whole limit, for then it would soon be
        its growth for which runs are killed.
        """
        limit = self.limits.rss
        return 0 < limit // _MOLD_SHARE < grown and (served >= took * _SERVES or grown > limit)

    def _jittered(self, limit: int) -> int:
        # What is off stays off, and what is on is at least one.
        return max(1, round(limit * (1 - JITTER + 2 * JITTER * self.draw()))) if limit else 0


@dataclass(slots=True)
class Pace:
    """How many runs workers have before they are recycled, by the hour, over a day.

    In runs and not in minutes, so that a busy day is no alarm: fewer runs mean that each leaves more memory behind.
    """

    _hours: deque[tuple[int, int, int]] = field(default_factory=deque)
    """Hour, recycles, their runs."""
    shrunk: bool = False

    def note(self, at: float, runs: int) -> bool:
        """Take one recycle after so many runs, `at` seconds of a steady clock; True when the alarm begins.

        The alarm is on while the newest hour's mean is at most half of the best hour's of the day before it.
        """
        hour = int(at // _HOUR)
        if self._hours and self._hours[-1][0] == hour:
            _, count, total = self._hours.pop()
            self._hours.append((hour, count + 1, total + runs))
        else:
            self._hours.append((hour, 1, runs))
        while self._hours[0][0] < hour - _DAY_HOURS:
            self._hours.popleft()
        before, self.shrunk = self.shrunk, self._has_shrunk()
        return self.shrunk and not before

    def _has_shrunk(self) -> bool:
        means = [total / count for _, count, total in self._hours if count >= _ENOUGH]
        if not means[1:] or self._hours[-1][1] < _ENOUGH:
            return self.shrunk
        *earlier, newest = means
        return newest <= max(earlier) / 2
