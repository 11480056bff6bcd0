"""Which folders of the depot nobody can want any more: facts in, yes or no out.

Pure: no I/O, no clock of its own. Silence is no proof that a ticket does not exist: its report may wait in the journal,
and it may itself wait in a lane that nobody serves. So a folder goes only after good evidence of an end, or after the
broker was seen to hold nothing that could refer to it; in doubt it stays (docs/decisions/0020).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.contract.outcomes import TicketState
from gateway.depot import Folder

LOOKS_APART: Final = 3000.0
"""Seconds between two looks at the broker that make up a proof. Longer than a broker lets anybody hold a message
unacknowledged (30 minutes): what was in somebody's hands at the first look is back or on record at the second."""

_ENDED: Final = frozenset({TicketState.DONE, TicketState.DISCARDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where the ticket stands that a folder was made for."""

    state: TicketState
    updated_at: float
    """Unix seconds of the latest report or decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Everything on record that speaks for a folder."""

    owner: Standing | None = None
    """None while no report about it has come."""
    kept: bool = False
    """The station has an item whose body refers to it, decided or not."""
    started: bool = False
    """The fence has a start of its ticket on record that is not closed."""
    on_hold: bool = False
    """Somebody has its ticket wait: nothing of it is removed until that ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long things are kept, in seconds."""

    retention: float
    """After the end of their ticket."""
    grace: float
    """After they were written, where no ticket was ever heard of."""


def may_go(folder: Folder, claims: Claims, patience: Patience, *, quiet: Sequence[float], now: float) -> bool:
    """Say whether a folder may be removed.

    `quiet` are the moments, oldest first, at which lanes, quarantine and journal were seen empty.
    """
    owner = claims.owner
    if claims.kept or claims.started or claims.on_hold or (owner is not None and owner.state not in _ENDED):
        return False
    if owner is not None and owner.updated_at >= folder.newest:
        return owner.updated_at + patience.retention <= now
    # Nobody was heard of, or only of a ticket that had ended before this was written: the id was used again.
    since = [look for look in quiet if look >= folder.newest + patience.grace]
    return bool(since) and since[-1] - since[0] >= LOOKS_APART
