"""Does a fleet of a thousand nodes move in waves? On paper: the product's own rules under a seeded clock (`on_paper`).

Retries after a common failure, recycling after a common start, probes and the rush behind a dependency that was down,
and what a deadly build costs. Needs no broker, no quiet machine, and gives the same figures each time.
"""

import statistics
from typing import Any, Final

from benchmarks.on_paper.probing import calls
from benchmarks.on_paper.replacing import recycles
from benchmarks.on_paper.retries import retries
from benchmarks.on_paper.storming import first_runs
from benchmarks.on_paper.waves import peak, series
from benchmarks.scale import Scale
from consumer.policy import Policy

NODES: Final = 1000
SLOTS: Final = 8
"""Of a node."""
RUNS: Final = 500
RUN_SECONDS: Final = 2.0
RATE: Final = 100.0
"""Items a second that need the dependency."""
DOWN_FOR: Final = 300.0
SETTLED: Final = 60.0
"""Seconds after which nodes have heard that it is down: an item comes to a node every 10 s, and it takes three."""
UNTIL: Final = 1500.0
_HOURS: Final = 3
_STEP: Final = 10
_SEEDS: Final = 5


def measure(scale: Scale) -> dict[str, Any]:
    """Run every question with several seeds; the worst of all seeds is reported."""
    items, policy = NODES * SLOTS, Policy()
    again = [retries(items, seed=seed, policy=policy) for seed in range(_SEEDS)]
    together = retries(items, seed=0, policy=policy, is_jittered=False)
    until = _HOURS * 3600.0
    worn = [recycles(items, seed=seed, runs=RUNS, run_seconds=RUN_SECONDS, until=until) for seed in range(_SEEDS)]
    in_step = recycles(items, seed=0, runs=RUNS, run_seconds=RUN_SECONDS, until=until, is_jittered=False)
    called = [calls(NODES, seed=seed, rate=RATE, down_for=DOWN_FOR, until=UNTIL) for seed in range(scale.pairs)]
    return {
        "nodes": NODES,
        "items_failed_at_once": items,
        "retries_peak_per_s": max(map(peak, again)),
        "retries_peak_per_s_without_jitter": peak(together),
        "workers": items,
        "recycles_peak_share": round(max(map(peak, worn)) / items, 4),
        "recycles_peak_share_without_jitter": round(peak(in_step) / items, 4),
        "usual_calls_per_s": RATE,
        "probes_per_s": round(statistics.median(len(one.probes) / (DOWN_FOR - SETTLED) for one in called), 2),
        "probes_peak_per_s": max(peak(one.probes) for one in called),
        "noticed_after_s": round(max(min(one.after) - DOWN_FOR for one in called), 1),
        "calls_peak_per_s_after_return": max(max(series(one.after, until=UNTIL, step=_STEP)) for one in called),
        "charged_by_deadly_build": max(first_runs(items, seed=seed, deadly=1.0).charged for seed in range(_SEEDS)),
        "series": {
            "retries": series(again[0], until=120.0),
            "retries, no jitter": series(together, until=120.0),
            "recycles": series(worn[0], until=until, step=_STEP),
            "recycles, no jitter": series(in_step, until=until, step=_STEP),
            "calls": series([*called[0].before, *called[0].probes, *called[0].after], until=UNTIL, step=_STEP),
        },
    }
