"""What the fence answers, and the seam between those who ask and the store; and the fence that is none.

Values only: nothing here touches a store.
"""

from dataclasses import dataclass
from typing import Protocol

from consumer.verdict import Decision
from gateway.contract.envelope import Spent
from gateway.contract.outcomes import Stamp


@dataclass(frozen=True, slots=True)
class Licensed:
    """The start is recorded; it may begin."""


@dataclass(frozen=True, slots=True)
class Superseded:
    """A copy: a start of this stamp or a greater one is on record, or the generation is closed."""

    why: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """Not a copy: another body under the id of a ticket that is on record. It may not start, nor be dropped."""

    why: str


@dataclass(frozen=True, slots=True)
class Pardoned:
    """An operator has given this generation's attempts back: the next generation starts in its place."""


Answered = Licensed | Superseded | Conflict | Pardoned


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollection:
    """What is on record about one start whose message came back."""

    holder: str = ""
    """The life of a node that it was licensed to; empty when it never was."""
    decision: Decision | None = None
    """What was decided about it, to be carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """The last sign of life of a node."""

    beat: float
    """Seconds on the node's own clock, which never runs backwards: only to be compared with the same node's."""
    every: float | None
    """Seconds between its beats; None from a version that did not say."""


class FenceUnavailable(Exception):
    """The store gave no answer; nothing may start or be settled until it does."""


class FenceRefuses(Exception):
    """The store cannot hold what is to be recorded of one ticket; asking again is in vain."""


class Fence(Protocol):
    """Licenses starts; two implementations: the store, and none (`LAZARETTO_FENCE=off`).

    Every coroutine but `close` raises FenceUnavailable, and where it is about a ticket FenceRefuses. A holder is one
    life of a node, not its name.
    """

    async def license(
        self, ticket: str, stamp: Stamp, /, *, holder: str, now: float, digest: str, token: str = ""
    ) -> Answered:
        """Record one start, or refuse it. `token` names the delivery: whoever asks again with it, since the first
        answer did not arrive, gets the same one.
        """

    async def decide(
        self, ticket: str, stamp: Stamp, decision: Decision, /, *, digest: str
    ) -> Decision | Superseded | Conflict:
        """Record what is done about a start; the first decision stands and is returned."""

    async def recall(
        self, ticket: str, stamp: Stamp, /, *, digest: str, message: str = ""
    ) -> Recollection | Superseded | Conflict:
        """Return what is on record about a start. `message` is the mark of the message that came back (`mark_of`)."""

    async def spend(self, ticket: str, stamp: Stamp, spent: Spent, /) -> bool:
        """Record what one start has spent so far; False when it is none to be paid for any more: decided, or
        overtaken.
        """

    async def spent(self, ticket: str, stamp: Stamp, /) -> Spent:
        """Return what one start is known to have spent."""

    @property
    def tells_begun(self) -> bool:
        """Tell whether it could be seen, were this node to die now, which of its licensed starts have begun."""

    def begin(self, ticket: str, stamp: Stamp, /) -> None:
        """Note that a licensed start begins, before anybody who runs it hears of it."""

    def never_began(self, holder: str, ticket: str, stamp: Stamp, /) -> bool:
        """Tell whether a start is known not to have begun, and never to begin; False where nobody can know."""

    async def beat(self, node: str, lane: str, pulse: Pulse, /) -> None:
        """Record that a node is alive; one that is to be licensed anything has beaten before."""

    async def pulse(self, node: str, /) -> Pulse | None:
        """Return a node's last sign of life, None where there is none."""

    async def forget(self, *, silent_since: float, ended_before: float | None) -> int:
        """Remove nodes that have been silent, and up to a few hundred tickets that ended before (Unix seconds); return
        how many tickets.
        """

    async def close(self) -> None:
        """Let go of the store."""


class Open:
    """No fence: every start is licensed; copies run, and the journal shows it (P9)."""

    async def license(
        self, _ticket: str, _stamp: Stamp, /, *, holder: str, now: float, digest: str, token: str = ""
    ) -> Licensed:
        """License it."""
        del holder, now, digest, token
        return Licensed()

    async def decide(self, _ticket: str, _stamp: Stamp, decision: Decision, /, *, digest: str) -> Decision:
        """Return the decision as it is."""
        del digest
        return decision

    async def recall(self, _ticket: str, _stamp: Stamp, /, *, digest: str, message: str = "") -> Recollection:
        """Know nothing."""
        del digest, message
        return Recollection()

    async def spend(self, _ticket: str, _stamp: Stamp, _spent: Spent, /) -> bool:
        """Record nothing: what a run spends is as durable as its supervisor."""
        return True

    async def spent(self, _ticket: str, _stamp: Stamp, /) -> Spent:
        """Know nothing."""
        return Spent()

    tells_begun = False

    def begin(self, _ticket: str, _stamp: Stamp, /) -> None:
        """Note nothing."""

    def never_began(self, _holder: str, _ticket: str, _stamp: Stamp, /) -> bool:
        """Know nothing."""
        return False

    async def beat(self, node: str, lane: str, pulse: Pulse, /) -> None:
        """Record nothing."""

    async def pulse(self, _node: str, /) -> Pulse | None:
        """Know nothing."""
        return None

    async def forget(self, *, silent_since: float, ended_before: float | None) -> int:
        """Have nothing to forget."""
        del silent_since, ended_before
        return 0

    async def close(self) -> None:
        """Do nothing."""
