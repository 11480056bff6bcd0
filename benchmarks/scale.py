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
    no_ops: int
    """`consume`: items of one leg."""
    requests: int
    """`admission`: requests of one leg."""
    restarts: int
    """`restart`: replacements of the node in one leg; each gets 60 items that work for 100 ms."""


TINY: Final = Scale(pairs=1, good_items=20, no_ops=200, requests=100, restarts=1)
QUICK: Final = Scale(pairs=2, good_items=300, no_ops=1500, requests=2000, restarts=3)
FULL: Final = Scale(pairs=5, good_items=500, no_ops=20_000, requests=20_000, restarts=10)
