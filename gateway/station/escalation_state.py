"""How far the handing over of an item to people outside is, as reviewers and its client see it; pure.

Owns the states and what they are told from.
"""

from enum import StrEnum


class EscalationState(StrEnum):
    """Where an escalation stands."""

    OWED = "owed"
    """It has not gone out yet."""
    SENT = "sent"
    ACKNOWLEDGED = "acknowledged"
    """Somebody outside has taken it on, and has a reference of his own for it."""
    CLOSED = "closed"
    """Its item is decided."""


def escalation_state(*, is_open: bool, sent: bool, told_over: bool, acknowledged: bool) -> EscalationState:
    """Return the state; `is_open` while nobody has decided about the item.

    `told_over` is whether the last that people outside heard of it is that it is over: then they have it no more.
    """
    if not is_open:
        return EscalationState.CLOSED
    if acknowledged:
        return EscalationState.ACKNOWLEDGED
    return EscalationState.SENT if sent and not told_over else EscalationState.OWED
