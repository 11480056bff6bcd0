"""When the contents of a decided item may go (Q9); values in, values out.

Owns the rule. Nothing that somebody still has to look at ever goes: not what is held, not a replay of which nobody
knows whether it was sent, not the original of a ticket that has not ended since, nor anything of a ticket that is held
again or on hold.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, assert_never

from gateway.contract.outcomes import TicketState
from gateway.station.holding import ItemState

ENDED: Final = (TicketState.DONE, TicketState.DISCARDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What counts of one item."""

    state: ItemState
    decided_at: float | None
    removed_at: float | None
    ticket_state: str
    reported_at: float
    """When the last report about its ticket was made (Unix seconds)."""
    all_states: Collection[ItemState]
    """Of all generations of its ticket that were ever held."""
    on_hold: bool = False
    """Whether somebody has its ticket wait."""


def is_decided(state: ItemState) -> bool:
    """Tell whether nobody has to look at an item in this state any more; a new state has to say so here."""
    match state:
        case ItemState.HELD | ItemState.REPLAYING:
            return False
        case ItemState.REPLAYED | ItemState.DISCARDED:
            return True
        case _:
            assert_never(state)


DECIDED: Final = tuple(state for state in ItemState if is_decided(state))


def removal_at(facts: Facts, keep: float) -> float | None:
    """Return the Unix time from which on the contents go, `keep` seconds after all has ended; None: not by themselves.

    `keep` of 0 keeps all. What has gone already has no such time.
    """
    if not keep or facts.removed_at is not None or facts.decided_at is None:
        return None
    if not is_decided(facts.state) or not all(map(is_decided, facts.all_states)):
        return None
    if facts.ticket_state not in ENDED or facts.on_hold:
        return None
    return max(facts.decided_at, facts.reported_at) + keep
