"""How many messages people get through one channel, and when many alerts become one message; pure.

Owns the bound: in any span of time at most so many single messages, and one more that tells of all the others.
"""

from collections import deque
from dataclasses import dataclass
from enum import StrEnum


class Turn(StrEnum):
    """What to do with the alerts that are due."""

    SINGLY = "singly"
    TOGETHER = "together"
    LATER = "later"
    """A message of many went out a moment ago; the next one tells of what has come since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """From when on it is too much."""

    most: int
    """Single messages in a span; 0: never more than the one that tells of many."""
    span: float
    """Seconds."""


class Pace:
    """What one channel has got lately."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._single = deque[float]()
        self._together: float | None = None

    def turn(self, due: int, now: float) -> Turn:
        """Return what to do with `due` alerts at a moment (seconds of a clock that never goes back)."""
        while self._single and self._single[0] <= now - self._rate.span:
            self._single.popleft()
        if due <= self._rate.most - len(self._single):
            return Turn.SINGLY
        if self._together is None or self._together <= now - self._rate.span:
            return Turn.TOGETHER
        return Turn.LATER

    def sent(self, turn: Turn, now: float) -> None:
        """Take note of a message, also of one that may not have arrived."""
        if turn is Turn.TOGETHER:
            self._together = now
        else:
            self._single.append(now)
