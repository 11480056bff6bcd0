"""The storm guard's rule: when many different items die on their first run, the handler's build is to blame (C12).

Pure. Looks at first runs in the work lane alone: the isolation lane sees mostly crashers by design, and an item's
second death says more about the item than about the build.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.contract.envelope import Envelope
from gateway.contract.outcomes import Outcome
from gateway.contract.topology import Lane

STOPPED: Final = "storm"
"""Code of a run that is not charged because the build is to blame."""
DEATHS: Final = frozenset({Outcome.CRASHED, Outcome.MEMORY})
"""Runs that ended with a dead worker. Not `lost`: what a vanished node had been handed need not have run at all."""
_SURVIVED: Final = frozenset(
    {
        Outcome.SUCCEEDED,
        Outcome.FAILED,
        Outcome.REJECTED,
        Outcome.TIMED_OUT,
        Outcome.OVERSPENT,
        Outcome.DEPENDENCY,
    }
)
"""Runs that ended and left their worker alive, or were ended by us; what was given back says nothing either way."""


class OnStorm(StrEnum):
    """What a node does when its build is to blame."""

    WAIT = "wait"
    EXIT = "exit"
    OFF = "off"
    """Nothing: there is no guard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A storm: `items` different ones died, and `share` of the newest `window` runs of the last `span` seconds."""

    window: int = 20
    span: float = 600.0
    items: int = 5
    share: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """First runs in the order of their ends: some that were survived, then at most one that was not."""

    at: float
    """Unix seconds."""
    survived: int = 0
    died: str | None = None
    """The ticket whose run ended with a dead worker."""
    evidence: str = ""
    """How we know: the code and the last words of that run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """A build that kills its workers, and what shows it."""

    since: float
    """Unix seconds."""
    runs: int
    """First runs that were looked at."""
    deaths: int
    items: tuple[str, ...]
    """Different tickets that died, the newest last."""
    evidence: str = ""
    by: str = ""
    """The node that saw it."""

    @property
    def why(self) -> str:
        """One sentence for a person."""
        return (
            f"{len(self.items)} different items ended with a dead worker in {self.deaths} of the last {self.runs}"
            f" first runs, last {self.evidence or 'without a word'}"
        )


def first_run(envelope: Envelope, lane: Lane, outcome: Outcome) -> bool | None:
    """Tell whether a first run in the work lane left its worker alive; None for whatever says nothing about a build."""
    if lane is not Lane.WORK or envelope.attempt != 1 or envelope.suspect is not None:
        return None
    if outcome in DEATHS:
        return False
    return True if outcome in _SURVIVED else None


def judge(newest_first: Iterable[Tally], rule: Rule, now: float) -> Storm | None:
    """Return the storm that the newest runs show, or None while it may be the items' own doing; `now` in Unix seconds.

    A window that is not full yet is judged by the runs that are there: five deaths of five are enough.
    """
    runs = deaths = 0
    items: list[str] = []
    evidence = ""
    for tally in newest_first:
        if runs >= rule.window or now - tally.at > rule.span:
            break
        if tally.died is not None:
            runs += 1
            deaths += 1
            evidence = evidence or tally.evidence
            if tally.died not in items:
                items.append(tally.died)
        runs = min(rule.window, runs + tally.survived)
    if len(items) < rule.items or deaths < rule.share * runs:
        return None
    return Storm(since=now, runs=runs, deaths=deaths, items=tuple(reversed(items)), evidence=evidence)
