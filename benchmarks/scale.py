"""How large a benchmark is: the full form, the quick one of `make bench`, and one that only proves that it runs."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Counts; each benchmark takes those that concern it."""

    pairs: int
    """Interleaved repetitions; the median is reported."""
    good_items: int
    """`storm`: items that work for 20 ms and harm nobody."""
    storm_s: float
    """`storm`: seconds that a peer gets; many would never come to an end."""
    no_ops: int
    """`consume`: items of one leg."""
    requests: int
    """`admission`: requests of one leg."""
    wrk_s: int
    """`admission`: seconds of one leg of wrk, which stops by the clock."""
    hostile: int
    """`hostile`: requests of the well-behaved, of one leg."""
    generated: int
    """`hostile`: generated requests afterwards."""
    steady: int
    """`memory`: requests of one door, one after another."""
    uploads: int
    """`memory`: clients at once that do not come to the end of their bodies."""
    restarts: int
    """`restart`: replacements of the node in one leg; each gets 60 items that work for 100 ms."""
    recycle_runs: int
    """`recycle`: runs after which a worker is replaced."""
    recycled_items: int
    """`recycle`: items of one leg, which work for 20 ms."""
    kills: int
    """`recycle`: workers that are killed to see how soon their slots run again."""
    kept: int
    """`station`: items of one leg, and tickets whose events are another's."""
    outages: int
    """`recovery`: deaths of the broker."""
    spread: int
    """`scale`: items of one leg that do nothing."""
    nodes: tuple[int, ...]
    """`scale`: how many nodes, one after another; the first is 1."""
    waiting: int
    """`scale`: items of one leg that wait for 50 ms, for each node."""
    parked: int
    """`backlog`: items that lie in queues, half of them in a lane and half in the delay ladder."""
    between_outages: int
    """`recovery`: tickets that are admitted before each of them and after the last; they work for 20 ms."""


TINY: Final = Scale(
    pairs=1,
    good_items=20,
    storm_s=5,
    no_ops=200,
    requests=100,
    wrk_s=1,
    hostile=60,
    generated=60,
    steady=400,
    uploads=20,
    restarts=1,
    recycle_runs=5,
    recycled_items=40,
    kills=2,
    kept=200,
    spread=200,
    nodes=(1, 2),
    waiting=20,
    parked=400,
    outages=1,
    between_outages=20,
)
QUICK: Final = Scale(
    pairs=2,
    good_items=300,
    storm_s=10,
    no_ops=1500,
    requests=2000,
    wrk_s=1,
    hostile=1500,
    generated=1000,
    steady=20_000,
    uploads=1000,
    restarts=3,
    recycle_runs=100,
    recycled_items=400,
    kills=10,
    kept=3000,
    spread=4000,
    nodes=(1, 2, 4),
    waiting=200,
    parked=30_000,
    outages=2,
    between_outages=300,
)
FULL: Final = Scale(
    pairs=5,
    good_items=500,
    storm_s=60,
    no_ops=20_000,
    requests=20_000,
    wrk_s=10,
    hostile=6_000,
    generated=10_000,
    steady=100_000,
    uploads=1000,
    restarts=10,
    recycle_runs=500,
    recycled_items=3000,
    kills=100,
    kept=20_000,
    spread=12_000,
    nodes=(1, 2, 4),
    waiting=2000,
    parked=1_000_000,
    outages=10,
    between_outages=1000,
)
