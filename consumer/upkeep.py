"""Watches workers and molds grow, says which are to be recycled, and what their growth means.

Owns the measuring between runs, and the metrics and log lines of recycling; the rules are in `recycle`, who goes when
in `fleet`.
"""

import logging
import random
import time
from collections.abc import Callable
from typing import Any, Final

from consumer import metrics
from consumer.census import Turnover
from consumer.evidence import Death, shown
from consumer.intentions import RECYCLED, Cause, Parting
from consumer.leash import Leash
from consumer.pipe import Grown
from consumer.recycle import LOOK_STEP, Limits, Pace, Recycling, Wear
from consumer.spawn import Mold
from gateway.contract.logs import event

_log: Final = logging.getLogger("consumer.upkeep")


class Upkeep:
    """What one pool knows of the wear of its processes."""

    def __init__(self, limits: Limits, *, draw: Callable[[], float] = random.random) -> None:
        self._recycling = Recycling(limits, draw)
        self._wears: dict[int, Wear] = {}
        self._pace = Pace()
        self._fresh: dict[int, tuple[int, int]] = {}
        """Private and resident bytes of a worker before its first run, by the number of its mold."""
        self._molds: dict[int, tuple[int, float]] = {}
        """Bytes that no file stood behind when a mold had loaded, and when that was, by its number."""
        self._has_warned = False
        self._recycled_so_far = self._died_so_far = 0
        self.tell: Callable[[dict[str, Any]], None] = lambda _: None
        """Hears what a leak hunt finds."""

    def born(self, leash: Leash) -> None:
        """A worker is ready for its first run; what it has now is what idling costs."""
        private, resident = self._fresh.get(leash.mold, (0, 0))
        if abs(leash.resident() - resident) > LOOK_STEP:  # workers of one mold are born alike: one look does for all
            private, resident = self._fresh[leash.mold] = leash.private(), leash.resident()
        self._wears[leash.worker] = self._recycling.begin(private=private, resident=resident, now=time.monotonic())
        if self._recycling.is_pointless(private) and not self._has_warned:
            self._has_warned = True
            event(
                _log,
                "recycle.limit_too_low",
                logging.WARNING,
                limit=self._recycling.limits.rss,
                baseline=private,
                why="a worker has more than LAZARETTO_RECYCLE_RSS before its first run; that limit is ignored",
            )

    def after_run(self, leash: Leash) -> Parting | None:
        """Measure a worker between two runs; returns why it is to be recycled, or None."""
        wear = self._wears.get(leash.worker)
        if wear is None or leash.hunted:
            return None  # what traces itself grows by that alone
        if wear.worn is None:
            resident, now = leash.resident(), time.monotonic()
            if wear.ran(resident, now):
                wear.looked(private=leash.private(), resident=resident, now=now)
                metrics.WORKER_GROWTH.set(self._recycling.growth(self._wears.values()) or 0.0)
        return wear.worn

    def gone(self, leash: Leash, why: Cause | Parting, death: Death) -> None:
        """A worker has ended."""
        metrics.WORKER_EXITS.labels(why, _signal(death)).inc()
        wear = self._wears.pop(leash.worker, None)
        if isinstance(why, Cause) and why is not Cause.STOPPED:
            self._died_so_far += 1
        if wear is None:
            return
        metrics.WORKER_RUNS.observe(leash.runs)
        metrics.WORKER_RSS.observe(wear.private)
        self._recycling.end(wear)
        if why in RECYCLED:
            self._recycled(leash, wear, why)

    def turnover(self) -> Turnover:
        """Return how workers came and went so far, and what their growth suggests."""
        growth = self._recycling.growth(self._wears.values())
        return Turnover(
            recycled=self._recycled_so_far,
            died=self._died_so_far,
            growth=growth,
            suggested_runs=self._recycling.suggested_runs(growth),
            shrunk=self._pace.shrunk,
        )

    def _recycled(self, leash: Leash, wear: Wear, why: Cause | Parting) -> None:
        self._recycled_so_far += 1
        growth = self._recycling.growth(self._wears.values())
        suggested = self._recycling.suggested_runs(growth)
        metrics.SUGGESTED_RUNS.set(suggested or 0)
        event(
            _log,
            "worker.recycled",
            pid=leash.pid,
            why=why,
            runs=leash.runs,
            private=wear.private,
            baseline=wear.baseline,
            growth_per_run=None if growth is None else round(growth),
            suggested_runs=suggested,
        )
        if why is not Parting.MOLD and self._pace.note(time.monotonic(), leash.runs):
            event(
                _log,
                "recycle.interval_shrunk",
                logging.WARNING,
                runs=leash.runs,
                growth_per_run=None if growth is None else round(growth),
                why="half as many runs as within the last day, or fewer, before a recycle: something leaks more",
            )
        metrics.RECYCLE_PACE.set(self._pace.shrunk)

    def grown(self, leash: Leash, found: Grown) -> None:
        """A hunted worker has told where its memory grows."""
        facts: dict[str, Any] = {
            "worker": leash.pid,
            "runs": found.runs,
            "traced": found.traced,
            "private": leash.private(),
            "baseline": self._wears[leash.worker].baseline if leash.worker in self._wears else 0,
        }
        places = "; ".join(f"{site.get('bytes')} bytes at {site.get('where')}" for site in found.sites)
        event(_log, "leak.growth", logging.WARNING, **facts, places=places or "nowhere")
        most = f", most of it at {found.sites[0].get('where')}" if found.sites else ""
        why = f"{found.traced} bytes more after {found.runs} runs{most}"
        self.tell({**facts, "sites": found.sites, "state": "growing" if found.traced else "watching", "why": why})

    @staticmethod
    def counted(recycling: int) -> None:
        """So many workers are there beyond the slots."""
        metrics.RECYCLING.set(recycling)

    # ------------------------------------------------------------ molds

    def loaded(self, number: int, mold: Mold) -> None:
        """A mold has loaded the handler; what it has now is what that costs."""
        resident, anonymous = mold.memory
        self._molds[number] = anonymous, time.monotonic()
        metrics.MOLD_RSS.set(resident)

    def is_worn(self, number: int, mold: Mold) -> bool:
        """Measure a mold that has just forked; whether it has grown so much that it is to be replaced."""
        resident, anonymous = mold.memory
        metrics.MOLD_RSS.set(resident)
        loaded, since = self._molds[number]
        return self._recycling.mold_is_worn(
            grown=anonymous - loaded, served=time.monotonic() - since, took=since - mold.started
        )

    def ended(self, number: int) -> None:
        """A mold is gone."""
        self._molds.pop(number, None)
        self._fresh.pop(number, None)


def _signal(death: Death) -> str:
    word = shown(death)
    return word.partition(":")[2] if word.startswith("signal:") else ""
