"""What a decision means for the suspicion that an item kills its workers. Pure."""

from enum import StrEnum

from consumer.verdict import Decision
from gateway.contract.envelope import Envelope
from gateway.contract.journal import Verdict
from gateway.contract.outcomes import CRASHES


class Suspicion(StrEnum):
    """How an item stands after one start."""

    ISOLATED = "isolated"
    """Its next run belongs in the isolation lane."""
    CLEARED = "cleared"
    """It has succeeded there."""
    DROPPED = "dropped"
    """It has failed there in words of its own: an ordinary failure, back to the work lane."""
    CONVICTED = "convicted"
    """It ends with a death."""


def suspicion(envelope: Envelope, decision: Decision) -> Suspicion | None:
    """Return what became of the suspicion, or None where there was none, or it ended for another reason."""
    if decision.pardoned:
        return None
    if decision.verdict is Verdict.ACK:
        return Suspicion.CLEARED if envelope.suspect else None
    if decision.final:
        return Suspicion.CONVICTED if decision.outcome in CRASHES else None
    if decision.suspect:
        return Suspicion.ISOLATED
    return Suspicion.DROPPED if envelope.suspect else None
