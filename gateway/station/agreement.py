"""Whether queue, store and journal tell the same story; what was counted in, what cannot be explained out.

Owns the rules. What is merely on its way is never a mismatch: an item that the store lacks may wait in its queue, and
what the journal has not told may wait in the journal's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Mismatch(StrEnum):
    """In what way they differ; also a label of the metric."""

    MISSING_ITEM = "missing_item"
    """The journal says quarantined, and there is no row."""
    MISSING_JOURNAL = "missing_journal"
    """There is a row with runs that the journal never told of."""
    MISSING_REPLAY = "missing_replay"
    """A replay was confirmed, and neither a node nor a queue knows of it."""
    UNCONFIRMED_REPLAY = "unconfirmed_replay"
    """A replay was begun, and nobody knows whether the broker has it."""
    STALLED_QUEUE = "stalled_queue"
    """Items wait in the quarantine queue, and none is stored."""
    DEAD_RUN = "dead_run"
    """A ticket is said to run on a node that has not beaten for long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspects:
    """Tickets that something is odd about: how many, and the first few."""

    number: int = 0
    tickets: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Depths:
    """Messages that are ready, by what they are."""

    quarantine: int
    journal: int
    on_their_way: int
    """In lanes and delays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look found; suspects have been so for longer than the patience."""

    at: float
    """Unix seconds."""
    unkept: Suspects
    untold: Suspects
    unseen: Suspects
    unconfirmed: Suspects
    orphaned: Suspects
    kept_at: float | None
    """When the newest item was stored."""
    depths: Depths | None
    """None while the broker cannot be asked: then only what the store alone tells is judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One way in which they differ."""

    mismatch: Mismatch
    number: int
    tickets: Sequence[str]
    """The first few; some of them may be the ones that are explained."""
    sentence: str


def compare(look: Look, before: Look | None) -> list[Finding]:
    """Return what cannot be explained; `before` is the look before this one."""
    found = [_finding(Mismatch.UNCONFIRMED_REPLAY, look.unconfirmed.number, look.unconfirmed)]
    depths = look.depths
    if depths is not None:
        found.append(_finding(Mismatch.MISSING_ITEM, look.unkept.number - depths.quarantine, look.unkept))
        if not depths.journal:
            unseen = look.unseen.number - depths.on_their_way
            found.append(_finding(Mismatch.MISSING_JOURNAL, look.untold.number, look.untold))
            found.append(_finding(Mismatch.MISSING_REPLAY, unseen, look.unseen))
            found.append(_finding(Mismatch.DEAD_RUN, look.orphaned.number, look.orphaned))
        if _is_stalled(look, before):
            found.append(_finding(Mismatch.STALLED_QUEUE, depths.quarantine, Suspects()))
    return [finding for finding in found if finding.number > 0]


def _is_stalled(look: Look, before: Look | None) -> bool:
    if before is None or before.depths is None or not before.depths.quarantine:
        return False
    return look.kept_at is None or look.kept_at <= before.at


def _finding(mismatch: Mismatch, number: int, suspects: Suspects) -> Finding:
    one = number == 1
    told = {
        Mismatch.MISSING_ITEM: "the journal says quarantined, and there is no item in store or queue",
        Mismatch.MISSING_JOURNAL: "the item is here, and the journal never told of its runs",
        Mismatch.MISSING_REPLAY: "the replay was confirmed, and no node or queue has it; its original is kept",
        Mismatch.UNCONFIRMED_REPLAY: "a replay was begun and never confirmed; `operations resume` sends it again",
        Mismatch.STALLED_QUEUE: "waiting in the quarantine queue, and nothing is being stored",
        Mismatch.DEAD_RUN: "said to run on a node that is dead; whoever gets the redelivery closes it",
    }
    of = "item" if mismatch is Mismatch.STALLED_QUEUE else "ticket"
    sentence = f"{number} {of}{'' if one else 's'}: {told[mismatch]}"
    return Finding(mismatch=mismatch, number=number, tickets=suspects.tickets, sentence=sentence)
