"""What became of a start whose message came back: the evidence of the store, and the judgement on it (P8).

Owns the order of the questions. Decides about no item, publishes and acknowledges nothing: it returns what is known.
"""

import time
from dataclasses import dataclass
from functools import partial

from consumer import judgement
from consumer.claim import Reclaim
from consumer.endings import was_spared
from consumer.fence import Conflict, Fence, FenceUnavailable, Superseded
from consumer.heart import Heart
from consumer.judgement import wait_for
from consumer.link import Link
from consumer.settings import Settings
from consumer.settlement import Settlement, digest_of
from consumer.verdict import Decision
from gateway.contract.envelope import Loss
from gateway.contract.outcomes import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Vanished:
    """Nothing is decided yet: the start is closed with this outcome."""

    outcome: Outcome
    holder: str = ""
    """The node that held it, empty where nobody knows."""
    waited: float = 0.0
    """Seconds that the item has waited for this judgement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """It was decided before: that is carried out."""

    decision: Decision
    waited: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """It is not to be known yet: the item waits with the question."""

    loss: Loss
    delay: float
    unanswered: bool = False
    """The store was silent: such waits are bounded by their age."""


class Reclaiming:
    """Finds out about the redeliveries of one node."""

    def __init__(self, settings: Settings, fence: Fence, settlement: Settlement, heart: Heart) -> None:
        self._fence = fence
        self._settlement = settlement
        self._heart = heart
        self._patience = settings.fence_patience
        self.floor = settings.lost_grace + settings.reclaim_margin
        """Seconds that a reclaimed item waits at least; a cut-off run is dead by then (P10)."""

    async def look(
        self, link: Link, reclaim: Reclaim, message: str
    ) -> Vanished | Decided | Waiting | Superseded | Conflict:
        """Return what is known about a start whose message, of this mark, came back; raises SessionLost."""
        try:
            return await self._look(link, reclaim, message)
        except FenceUnavailable:  # for too long: others have use for the slot, and the question keeps
            now = time.time()
            asked = reclaim.envelope.loss or Loss(holder="", beat=0.0, at=now)
            return Waiting(loss=asked, delay=wait_for(self._heart.every, self.floor), unanswered=True)

    async def _look(
        self, link: Link, reclaim: Reclaim, message: str
    ) -> Vanished | Decided | Waiting | Superseded | Conflict:
        envelope = reclaim.envelope
        loss = envelope.loss
        recall = partial(
            self._fence.recall,
            envelope.ticket,
            envelope.stamp,
            digest=digest_of(envelope),
            message="" if loss is not None else message,  # one that waits with a question is another message each time
        )
        known = await self._settlement.ask_fence(link, recall, patience=self._patience)
        if isinstance(known, Superseded | Conflict):
            return known
        waited = self.floor if loss is not None else 0.0  # what it waits with a question is never less
        if known.decision is not None:
            return Decided(decision=known.decision, waited=waited)
        if not known.holder:
            return Vanished(outcome=reclaim.outcome, waited=waited)
        holder = Heart.name_of(known.holder)
        if known.holder == self._heart.life:  # it is we who lost the line, and we are here
            return Vanished(outcome=Outcome.OUTAGE, holder=holder, waited=waited)
        if not was_spared(envelope) and self._fence.never_began(known.holder, envelope.ticket, envelope.stamp):
            return Vanished(outcome=Outcome.RELEASED, holder=holder, waited=waited)
        pulse = await self._settlement.ask_fence(
            link, partial(self._fence.pulse, known.holder), patience=self._patience
        )
        every = (pulse and pulse.every) or self._heart.every
        beat = pulse.beat if pulse else None
        wait = wait_for(every, self.floor)
        if loss is None or loss.holder != known.holder:
            return Waiting(loss=Loss(holder=known.holder, beat=beat or 0.0, at=time.time()), delay=wait)
        steady_for = self._heart.steady_for
        match judgement.judge(loss, beat=beat, every=every, wait=wait, steady_for=steady_for, now=time.time()):
            case judgement.Judged(outcome=outcome):
                return Vanished(outcome=outcome, holder=holder, waited=waited)
            case judgement.Open(loss=again):
                return Waiting(loss=again, delay=wait)
