"""Every worker of a fleet is started in one moment, as by a roll-out: when are they recycled? By `recycle`'s limits."""

import random

from consumer.recycle import Limits, Recycling


def recycles(
    workers: int, *, seed: int, runs: int, run_seconds: float, until: float, is_jittered: bool = True
) -> list[float]:
    """Return when workers are recycled, in seconds from their common start up to `until`; all are always busy."""
    chance = random.Random(seed)
    recycling = Recycling(Limits(runs=runs), draw=chance.random if is_jittered else lambda: 0.5)
    moments = []
    for _ in range(workers):
        at = 0.0
        while True:
            at += recycling.begin(private=0, resident=0, now=at).runs_limit * run_seconds
            if at >= until:
                break
            moments.append(at)
    return moments
