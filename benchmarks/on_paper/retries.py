"""Every slot of a fleet fails in one moment: when do the items come back? By `verdict.backoff` and the delay ladder."""

import random

from benchmarks.on_paper.waves import in_ladder
from consumer.policy import Policy
from consumer.verdict import backoff
from gateway.contract.topology import Topology


def retries(items: int, *, seed: int, policy: Policy, is_jittered: bool = True) -> list[float]:
    """Return when runs after the first start, in seconds from the moment in which all first ones failed.

    All of them fail again, until their attempts are used up: the outage lasts longer than anybody's patience. Without
    jitter the delay is the longest that it may be, as it is where nobody thought of it.
    """
    chance, topology = random.Random(seed), Topology()
    starts = []
    for _ in range(items):
        at = 0.0
        for attempt in range(1, policy.max_attempts):
            at += in_ladder(topology, backoff(attempt, policy, chance.random() if is_jittered else 1.0))
            starts.append(at)
    return starts
