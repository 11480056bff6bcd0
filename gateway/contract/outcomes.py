"""How a run can end, where a ticket can stand, and how reports of it merge.

Values only; what follows from an outcome is the consumer's verdict.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple


class Outcome(StrEnum):
    """What happened to one run, or to an item before it could run."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REJECTED = "rejected"
    CRASHED = "crashed"
    MEMORY = "memory"
    TIMED_OUT = "timed_out"
    OVERSPENT = "overspent"
    LOST = "lost"
    RELEASED = "released"
    OUTAGE = "outage"
    DEPENDENCY = "dependency"
    INADMISSIBLE = "inadmissible"
    MALFORMED = "malformed"


class Reason(StrEnum):
    """Why an item is in quarantine, beyond the outcomes that lead there by themselves."""

    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    CRASHES_EXHAUSTED = "crashes_exhausted"
    INTERRUPTIONS_EXHAUSTED = "interruptions_exhausted"
    REJECTED = "rejected"
    OVERSPENT = "overspent"
    INADMISSIBLE = "inadmissible"
    MALFORMED = "malformed"
    DEPENDENCY = "dependency"
    """What it needs was down for longer than it may wait."""
    DELIVERY_LIMIT = "delivery_limit"
    ID_CONFLICT = "id_conflict"


CHARGED: Final = frozenset(
    {
        Outcome.FAILED,
        Outcome.REJECTED,
        Outcome.CRASHED,
        Outcome.MEMORY,
        Outcome.TIMED_OUT,
        Outcome.OVERSPENT,
        Outcome.LOST,
    }
)
"""Outcomes that use up an attempt."""

CRASHES: Final = frozenset({Outcome.CRASHED, Outcome.MEMORY, Outcome.LOST})
"""Outcomes in which a worker or its holder died."""

UNCHARGED: Final = frozenset({Outcome.RELEASED, Outcome.OUTAGE, Outcome.DEPENDENCY})
"""Outcomes after which an item comes back under the same number, one interruption older."""


class TicketState(StrEnum):
    """Where a ticket stands, as its client sees it."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    RETRYING = "retrying"
    DONE = "done"
    QUARANTINED = "quarantined"
    DISCARDED = "discarded"


RANK: Final = {
    TicketState.ACCEPTED: 0,
    TicketState.RUNNING: 1,
    TicketState.RETRYING: 2,
    TicketState.DONE: 3,
    TicketState.QUARANTINED: 3,
    TicketState.DISCARDED: 3,
}
"""Order of states under one stamp (P18); the last three end a generation."""


class Stamp(NamedTuple):
    """The name of one licensed start; different for every start and always growing, by generation first."""

    generation: int
    attempt: int
    interruptions: int

    def __str__(self) -> str:
        return f"{self.generation}.{self.attempt}.{self.interruptions}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A state and the stamp it was reported under."""

    stamp: Stamp
    state: TicketState

    def merge(self, other: "Standing") -> "Standing":
        """Return the later of two reports: greater stamp first, then rank; commutative (P18)."""
        return max(self, other, key=lambda standing: (standing.stamp, RANK[standing.state], standing.state))
