"""Whether moments come in waves: the most in any second, against what an even spread would have. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence

from gateway.contract.topology import Lane, Topology


def per_second(moments: Iterable[float]) -> Counter[int]:
    """Count moments by the second in which they fall."""
    return Counter(int(moment) for moment in moments)


def peak(moments: Sequence[float]) -> int:
    """Return the most moments in any second."""
    return max(per_second(moments).values(), default=0)


def series(moments: Iterable[float], *, until: float, step: int = 1) -> list[float]:
    """Return moments a second, in steps of so many seconds from 0 on."""
    counts = Counter(int(moment) // step for moment in moments if moment < until)
    return [counts[index] / step for index in range(-(-int(until) // step))]


def in_ladder(topology: Topology, seconds: float) -> float:
    """Return how long the delay ladder really keeps what is to be delayed by so many seconds."""
    bits, _, lane = topology.to_delay(Lane.WORK, seconds).key.rpartition(".")
    return int(bits.replace(".", ""), 2) * topology.delay_unit if lane and bits else 0.0
