"""Why an item's next run belongs in the isolation lane, and when a death there is enough to convict it. Pure."""

from typing import Final

from consumer.policy import Policy
from gateway.contract.envelope import Envelope
from gateway.contract.history import RunRecord
from gateway.contract.outcomes import CRASHES, Outcome

MOLD_LOST: Final = "mold_lost"
"""Code of a run whose mold died; uncharged (P17), but a second time in one generation is worth isolation."""


def is_convicted(envelope: Envelope, policy: Policy) -> bool:
    """Tell whether a death now is the second one, in isolation, of a kind where that is enough."""
    return policy.convict_in_isolation and envelope.suspect is not None and envelope.crashes > 0


def isolated_for(envelope: Envelope, outcome: Outcome, code: str) -> str | None:
    """Return why the next run belongs in the isolation lane, or None for the work lane (P13)."""
    if outcome in CRASHES:
        return outcome.value
    if outcome is Outcome.FAILED:
        return None
    again = [record for record in _this_generation(envelope) if record.outcome is outcome]
    if outcome is Outcome.TIMED_OUT and again:
        return outcome.value
    if outcome is Outcome.RELEASED and code == MOLD_LOST and any(record.code == MOLD_LOST for record in again):
        return MOLD_LOST
    return envelope.suspect


def _this_generation(envelope: Envelope) -> list[RunRecord]:
    """Return the newest records back to the start of this generation, where attempts begin to grow again."""
    found: list[RunRecord] = []
    attempt = envelope.attempt
    for record in reversed(envelope.history.runs):
        if record.attempt > attempt:
            break
        attempt = record.attempt
        found.append(record)
    return found
