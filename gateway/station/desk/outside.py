"""What people outside were handed, as pages show it: how far each is, and what is pressing first; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.station import wording
from gateway.station.escalation_state import EscalationState
from gateway.station.escalations import Escalation

_TONES: Final[Mapping[EscalationState, str]] = {
    EscalationState.OWED: "warn",
    EscalationState.SENT: "warn",
    EscalationState.ACKNOWLEDGED: "good",
    EscalationState.CLOSED: "calm",
}
_ORDER: Final = tuple(EscalationState)


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalationView:
    """One line about an item that was handed over."""

    escalation: Escalation
    tone: str
    sentence: str


def told(found: Sequence[Escalation]) -> list[EscalationView]:
    """Return escalations as they are shown, in this order."""
    return [EscalationView(escalation=one, tone=_TONES[one.state], sentence=wording.handed_over(one)) for one in found]


def pressing(found: Sequence[Escalation], most: int) -> list[EscalationView]:
    """Return those that nobody outside has yet, then those that nobody there has taken on, oldest first."""
    return told(sorted(found, key=lambda one: (_ORDER.index(one.state), one.created_at, one.ticket))[:most])
