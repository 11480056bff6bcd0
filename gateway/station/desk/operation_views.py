"""An operation as its pages tell it: how far it is, what may be done with it, and in which words; pure.

Owns these words. Counts come from `gateway.station.progress`, which reads them off the items themselves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from gateway.station.catalogue import Counted
from gateway.station.operations import Kind, Operation, State
from gateway.station.progress import Outcome

TONES: Final = {
    Outcome.WAITING: "",
    Outcome.SKIPPED: "warn",
    Outcome.UNCONFIRMED: "bad",
    Outcome.PENDING: "",
    Outcome.DONE: "good",
    Outcome.QUARANTINED: "bad",
    Outcome.DISCARDED: "good",
}
_STATE_TONES: Final = {
    State.DRAFT: "warn",
    State.RUNNING: "",
    State.HALTED: "bad",
    State.STOPPED: "warn",
    State.ENDED: "good",
}


_VERBS: Final = {Kind.REPLAY: "Replay", Kind.RESUME: "Resume", Kind.DISCARD: "Discard"}
_MEANINGS: Final = {
    Kind.REPLAY: "send them again with a full budget",
    Kind.RESUME: "send again what was sent and never confirmed",
    Kind.DISCARD: "end them",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Something that can be done with a selection."""

    act: Kind
    sentence: str
    counted: Counted | None
    """With how many, as far as they were counted; None for those that were ticked one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationView:
    """One operation for a page."""

    operation: Operation
    title: str
    verb: str
    tone: str
    sentence: str
    counts: Sequence[tuple[str, int, str]]
    """Outcome, number, tone; those that there are none of are left out."""
    possible: int
    """How many items it can be done with, as far as is known."""
    skipped: int
    had_turn: int
    moves: bool
    """Whether its page may be another one in a moment."""


def summary(one: Operation, counted: Mapping[Outcome, int]) -> OperationView:
    """Return what a page tells of an operation."""
    skipped, waiting = counted[Outcome.SKIPPED], counted[Outcome.WAITING]
    possible = one.total - skipped
    return OperationView(
        operation=one,
        title=f"{_VERBS[one.act]} {one.total:,} {_items(one.total)}",
        verb=_VERBS[one.act],
        tone=_STATE_TONES[one.state],
        sentence=_sentence(one, possible, waiting),
        counts=[(outcome.value, number, TONES[outcome]) for outcome, number in counted.items() if number],
        possible=possible,
        skipped=skipped,
        had_turn=possible - waiting,
        moves=one.state is State.RUNNING or (one.state is not State.DRAFT and counted[Outcome.PENDING] > 0),
    )


def offers(counted: Mapping[Kind, Counted] | None) -> list[Offer]:
    """Return what can be done with items that were ticked (None), or with so many that each act can be about.

    What there is nothing for is left out, unless that is everything.
    """
    if counted is None:
        return [Offer(act=act, sentence=_offered(act), counted=None) for act in Kind]
    acts = [act for act in Kind if counted[act].number] or list(Kind)
    return [Offer(act=act, sentence=_offered(act), counted=counted[act]) for act in acts]


def _offered(act: Kind) -> str:
    return f"{_VERBS[act]}: {_MEANINGS[act]}"


def _sentence(one: Operation, possible: int, waiting: int) -> str:
    match one.state:
        case State.DRAFT:
            canary = f", {min(one.canary, possible)} of them first" if one.canary else ""
            return f"Nothing has been changed yet. It can be done with {possible:,} of {one.total:,}{canary}."
        case State.RUNNING if one.canary and one.passed_at is None:
            return f"Its first {one.canary} go ahead; the others follow if all of these end well."
        case State.RUNNING:
            return f"{waiting:,} wait for their turn, at {one.pace:g} a second."
        case State.HALTED:
            return f"It stands still: {one.note or 'its first items did not end well'}. Continue it, or leave it."
        case State.STOPPED:
            return f"It was {one.note or 'stopped'}. {waiting:,} have not had their turn."
        case State.ENDED:
            return "Every item had its turn."
        case _:
            assert_never(one.state)


def _items(number: int) -> str:
    return "item" if number == 1 else "items"
