"""What a reviewer may want of an item, and every answer to that, as values.

Owns the words that verbs, pages and the JSON API share for a decision's end. Decides nothing.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.station.holding import ItemState


class DiscardCode(StrEnum):
    """Why an item is ended for good; the words beside it tell the rest."""

    DUPLICATE = "duplicate"
    NOT_A_TICKET = "not_a_ticket"
    RESOLVED_ELSEWHERE = "resolved_elsewhere"
    WITHDRAWN = "withdrawn"
    OUT_OF_DATE = "out_of_date"
    HARMFUL = "harmful"
    CANNOT_BE_PROCESSED = "cannot_be_processed"
    OTHER = "other"


MEANINGS: Final = {
    DiscardCode.DUPLICATE: "another ticket asks the same",
    DiscardCode.NOT_A_TICKET: "spam, a test, a mistake: nobody waits for an answer",
    DiscardCode.RESOLVED_ELSEWHERE: "a person has answered it by another way",
    DiscardCode.WITHDRAWN: "its client wants it no more",
    DiscardCode.OUT_OF_DATE: "too old to be of use",
    DiscardCode.HARMFUL: "it was made to break what reads it",
    DiscardCode.CANNOT_BE_PROCESSED: "no handler will come to an end with it",
    DiscardCode.OTHER: "none of these; the reason tells",
}
"""The codes in words, for whoever has to choose one."""


class Bar(StrEnum):
    """Why an item may not be replayed, restored or discarded although nobody has decided it."""

    REPLAY_LIMIT = "replay_limit"
    RAW_FILE = "raw_file"
    """Its message is only kept as a file beside the store."""
    UNREADABLE = "unreadable"
    """Its message cannot be made again."""
    INADMISSIBLE = "inadmissible"
    """Its edited body fails the door's checks."""
    WINDOW_OVER = "window_over"
    """It was discarded too long ago to be restored."""
    CONTENTS_REMOVED = "contents_removed"
    """Its body went with the retention; what is left is a tombstone."""
    NOT_EDITABLE = "not_editable"
    """The edit does not fit the form of its body."""
    ON_HOLD = "on_hold"
    """Somebody has its ticket wait."""
    STILL_SENDING = "still_sending"
    """A replay of it was begun moments ago and may yet be confirmed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Who wants it and why; both are mandatory."""

    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """It is decided, and what was to be sent was confirmed."""

    ticket: str
    generation: int
    """The generation that is now current."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Nothing of this ticket was ever held here."""

    ticket: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Somebody else's decision stands; `sentence` names who, what and when."""

    sentence: str
    state: ItemState
    by: str | None = None
    at: float | None = None
    """Unix seconds."""
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Barred:
    """Nobody has decided it, and yet this cannot be done with it."""

    bar: Bar
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """The broker certainly did not take it; the item is as it was: held, or in doubt when it was to be resumed."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubtful:
    """The broker may have taken it; the item stays `replaying` until a report of it arrives or it is sent again."""

    why: str
