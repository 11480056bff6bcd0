"""Whether whoever held a message is dead, or has only lost its line to the broker (P8).

Pure. Compares a holder's signs of life with its own earlier ones and with nobody's clock: two machines need not agree
on the time. Only how long an open question stays open rests on the clocks of those who wait.
"""

from dataclasses import dataclass, replace

from gateway.contract.envelope import Loss
from gateway.contract.outcomes import Outcome

WAIT_BEATS = 3
"""How many beats of its holder an item waits before it is judged: a living one is heard twice in that time."""
_GROWN = 1.5
"""Beats by which the last sign of life must have grown. One may still have been on its way when the loss was seen."""
_PATIENCE = 4
"""Waits after which a question that could not be answered is answered as a loss."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The question is answered: outage or lost."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Open:
    """The item waits (once more) with this."""

    loss: Loss


def wait_for(every: float, floor: float) -> float:
    """Return for how many seconds an item waits for its judgement, of a holder that beats `every` seconds."""
    return max(WAIT_BEATS * every, floor)


def judge(loss: Loss, *, beat: float | None, every: float, wait: float, steady_for: float, now: float) -> Judged | Open:
    """Judge a holder after a wait.

    `beat` is its last sign of life now, None where there is none, and `every` the seconds between two of them; `wait`
    is how many seconds the item has just waited, `steady_for` for how many the store has taken every beat of the
    judge's own. A store that took none may have missed the holder's too: then the item waits again, with the same
    question, until the loss is four waits old on the judge's clock.
    """
    is_known = loss.beat > 0 and beat is not None
    if is_known and beat is not None and beat - loss.beat > _GROWN * every:
        return Judged(Outcome.OUTAGE)
    if now - loss.at > _PATIENCE * wait:
        return Judged(Outcome.LOST)
    if not is_known and beat is not None:  # its first beat came after the loss was seen: it is compared from here on
        return Open(replace(loss, beat=beat))
    if steady_for < WAIT_BEATS * every:
        return Open(loss)
    return Judged(Outcome.LOST)
