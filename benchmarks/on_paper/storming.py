"""A build that kills every worker is rolled out to a whole fleet, or one that kills some: by the storm guard's rule.

All nodes share one memory, as they do in one store; a death is on record there before it is charged.
"""

import random
from collections import deque
from dataclasses import dataclass

from consumer.storm import Rule, Tally, judge


@dataclass(frozen=True, slots=True, kw_only=True)
class Storming:
    """What became of first runs that were under way in one moment."""

    charged: int
    """Items that died before the build was stopped."""
    is_stopped: bool


def first_runs(runs: int, *, seed: int, deadly: float) -> Storming:
    """End so many first runs, one after another; each kills its worker with a probability of `deadly`."""
    chance, rule = random.Random(seed), Rule()
    memory: deque[Tally] = deque(maxlen=rule.window)
    charged = 0
    for number in range(runs):
        died = f"item-{number}" if chance.random() < deadly else None
        memory.appendleft(Tally(at=0.0, survived=int(died is None), died=died))
        if died is None:
            continue
        if judge(memory, rule, 0.0) is not None:
            return Storming(charged=charged, is_stopped=True)
        charged += 1
    return Storming(charged=charged, is_stopped=False)
