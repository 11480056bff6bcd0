"""When more is refused than usual; pure.

Owns the rule that makes a rising rate of refusals an alert: once for each rule and window of time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

BASELINE: Final = 6
"""Windows before the present one that tell what is usual."""
LASTS_FOR: Final = 2
"""Windows from the beginning of a surge until it counts as over, unless it surges again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """From when on it is a surge."""

    window: float
    """Seconds."""
    least: int
    """Refusals in a window, below which nobody is told; 0: nobody ever is."""
    factor: float
    """How many times the usual number of a window it must be."""

    def begins(self, moment: float) -> float:
        """Return when the window of a moment began; all processes cut time alike."""
        return moment // self.window * self.window

    def looks_back(self, moment: float) -> float:
        """Return the beginning of what has to be known at a moment."""
        return self.begins(moment) - BASELINE * self.window


@dataclass(frozen=True, slots=True, kw_only=True)
class Surge:
    """Refusals by one rule are many more than usual."""

    rule: str
    window: float
    """When the window began, Unix seconds."""
    count: int
    """So far in this window."""
    usual: float
    """Of a window, in those before."""


def surges(counts: Iterable[tuple[str, float, int]], threshold: Threshold, now: float) -> list[Surge]:
    """Return the surges of the present window, by rule; `counts` are rules, moments (Unix seconds) and numbers."""
    present = threshold.begins(now)
    begin = threshold.looks_back(now)
    current: dict[str, int] = {}
    earlier: dict[str, int] = {}
    for rule, moment, number in counts:
        if begin <= moment < present + threshold.window:
            where = current if moment >= present else earlier
            where[rule] = where.get(rule, 0) + number
    found = [
        Surge(rule=rule, window=present, count=count, usual=earlier.get(rule, 0) / BASELINE)
        for rule, count in sorted(current.items())
    ]
    return [one for one in found if 0 < threshold.least <= one.count and one.count >= threshold.factor * one.usual]
