"""How the station feels: what keeper and outbox know of broker and store, for readiness.

Owns no decision; whoever finds out writes it down here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.station.agreement import Finding


@dataclass(slots=True, kw_only=True)
class Vitals:
    """The present state; each field is written by one task only."""

    consuming: bool = False
    """The keeper holds consumers on both queues."""
    store_error: str | None = None
    """What the store answered last to the keeper, when it could not be written."""

    writable: bool = False
    """The store took a write when it was tried last; readiness serves this answer instead of queueing for the lock."""

    findings: Sequence[Finding] = ()
    """In what queue, store and journal differed when they were compared last; no reason to take nothing in."""

    @property
    def problems(self) -> list[str]:
        """What keeps the station from taking items in; empty when nothing does."""
        found = [] if self.consuming else ["not consuming: no broker connection, or the queues are gone"]
        if self.store_error is not None or not self.writable:
            found.append(f"store: {self.store_error or 'cannot be written'}")
        return found
