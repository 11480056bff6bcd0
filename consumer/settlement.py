"""The only place that acknowledges (P6): decision, journal, publish, confirm, ack, in this order and never another.

Whatever ends a start passes through here: success, failure, death, release, a copy, a message nobody understands. A
session that is lost on the way leaves the broker's copy as the truth (P3).
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from consumer import records
from consumer.endings import is_stranger
from consumer.fence import Conflict, Fence, FenceUnavailable, Superseded
from consumer.link import Link
from consumer.session import Delivery, SessionLost
from consumer.verdict import Decision, next_message
from gateway.contract.envelope import Envelope, Malformed, encode, encode_malformed
from gateway.contract.ids import distinguished
from gateway.contract.journal import Event, EventName, Verdict
from gateway.contract.logs import event
from gateway.contract.outcomes import Reason
from gateway.contract.topology import Lane, Topology

log = logging.getLogger("consumer.settlement")

T = TypeVar("T")
_FENCE_PAUSE: Final = 0.5


class Settlement:
    """Settles the deliveries of one node in one lane."""

    def __init__(self, topology: Topology, fence: Fence, *, node: str, lane: Lane) -> None:
        self._topology = topology
        self._fence = fence
        self._node = node
        self._lane = lane
        self.fence_answers = True
        """False while the store gives no answer; the node is not ready then."""
        self.leaves = False
        """True when this node is about to end: then a store that gives no answer is done without."""

    async def settle(
        self,
        link: Link,
        delivery: Delivery,
        envelope: Envelope,
        decision: Decision,
        *,
        patience: float | None = None,
        waited: float = 0.0,
        digest: str = "",
        **data: Any,
    ) -> Decision | None:
        """Carry out a decision about one start; returns what was done, None when the delivery was a stale copy.

        The first decision ever recorded for this start is the one carried out. `data` goes into the journal's record.
        A store that gives no answer is done without after `patience` seconds, None being for ever, for what has never
        started; and when the node `leaves`: what it would leave behind unsettled is charged as lost.
        `waited` is how many seconds of the decision's delay have passed; `digest` is the envelope's, where it is known.
        Raises SessionLost: then nothing is acknowledged, and the redelivery finds the recorded decision.
        """
        told = digest or digest_of(envelope)
        recorded: Decision | Superseded | Conflict
        try:
            recorded = await self.ask_fence(
                link,
                lambda: self._fence.decide(envelope.ticket, envelope.stamp, decision, digest=told),
                unless=lambda: self.leaves,
                patience=patience,
                at_least_once=True,
            )
        except FenceUnavailable:
            recorded = decision
        if isinstance(recorded, Superseded | Conflict):
            await self.settle_stale(link, delivery, envelope, recorded)
            return None
        events = self._events(envelope, recorded, data)
        match recorded.verdict:
            case Verdict.ACK | Verdict.DISCARD:
                await link.journal.write(*events)
            case Verdict.RETRY | Verdict.RELEASE:
                route = self._topology.to_delay(recorded.lane, max(0.0, recorded.delay - waited))
                message = encode(next_message(envelope, recorded))
                await _both(link.session.publish(route, message), link.journal.write(*events))
            case Verdict.QUARANTINE:  # nobody may hear of it before it is there
                message = encode(next_message(envelope, recorded))
                await link.session.publish(self._topology.to_quarantine(envelope.kind), message)
                await link.journal.write(*events)
        await link.intake.acknowledge(delivery)
        return recorded

    async def postpone(self, link: Link, delivery: Delivery, envelope: Envelope, delay: float) -> None:
        """Put a message back as it is, to come again after `delay` seconds; raises SessionLost.

        Only for one that licenses no run: nothing is decided by it, and copies of it end in one decision.
        """
        await link.session.publish(self._topology.to_delay(self._lane, delay), encode(envelope))
        await link.intake.acknowledge(delivery)

    async def settle_stale(
        self, link: Link, delivery: Delivery, envelope: Envelope, stale: Superseded | Conflict
    ) -> None:
        """Drop a copy whose start is on record elsewhere; keep another ticket under a taken id for a person.

        Raises SessionLost.
        """
        if isinstance(stale, Superseded):
            event(log, "copy.dropped", logging.WARNING, ticket=envelope.ticket, stamp=envelope.stamp, why=stale.why)
            await link.journal.write(self._event(EventName.DROPPED, envelope, {"why": stale.why, "lane": self._lane}))
        else:
            kept = replace(
                envelope,
                ticket=distinguished(envelope.ticket, envelope.body),
                reason=str(Reason.ID_CONFLICT),
                detail=stale.why,
            )
            event(log, "id.conflict", logging.WARNING, ticket=envelope.ticket, kept_as=kept.ticket, why=stale.why)
            data = {"reason": Reason.ID_CONFLICT, "detail": stale.why, "lane": self._lane}
            await link.session.publish(self._topology.to_quarantine(kept.kind), encode(kept))
            await link.journal.write(self._event(EventName.QUARANTINED, kept, data))
        await link.intake.acknowledge(delivery)

    async def settle_malformed(self, link: Link, delivery: Delivery, malformed: Malformed) -> None:
        """Send what cannot be understood to quarantine as it came (P12); raises SessionLost."""
        event(log, "item.malformed", logging.WARNING, ticket=malformed.ticket, detail=malformed.detail)
        data = {"reason": Reason.MALFORMED, "detail": malformed.detail, "lane": self._lane}
        quarantined = Event(
            event=EventName.QUARANTINED,
            at=time.time(),
            ticket=malformed.ticket,
            kind=malformed.kind,
            node=self._node,
            data=data,
        )
        route = self._topology.to_quarantine(malformed.kind)
        await link.session.publish(route, encode_malformed(malformed, reason=Reason.MALFORMED))
        await link.journal.write(quarantined)
        await link.intake.acknowledge(delivery)

    async def ask_fence(
        self,
        link: Link,
        ask: Callable[[], Awaitable[T]],
        *,
        unless: Callable[[], bool] = lambda: False,
        patience: float | None = None,
        at_least_once: bool = False,
    ) -> T:
        """Ask until the store answers.

        Raises SessionLost when the session ends first, FenceUnavailable where `unless`, and when `patience` seconds are
        over and it was asked once. `at_least_once` holds even without a session, and whatever `unless` says: a
        decision on record spares the item a second run.
        """
        began = time.monotonic()
        while at_least_once or not link.session.is_lost:
            if not at_least_once and unless():
                raise FenceUnavailable("not waited for")
            at_least_once = False
            try:
                answer = await ask()
            except FenceUnavailable as error:
                if self.fence_answers:
                    event(log, "fence.unavailable", logging.ERROR, error=error, retry_after=_FENCE_PAUSE)
                self.fence_answers = False
                await link.session.ends_within(_FENCE_PAUSE)
                if patience is not None and time.monotonic() - began >= patience:
                    raise
            else:
                if not self.fence_answers:
                    event(log, "fence.answers")
                self.fence_answers = True
                return answer
        raise SessionLost("the session ended before the fence answered")

    def started(self, envelope: Envelope, *, at: float, **data: Any) -> Event:
        """Return the event that a run began; `at` in Unix seconds."""
        told = {"lane": self._lane, "examine": is_stranger(envelope), **data}
        return records.record(EventName.STARTED, envelope, told, node=self._node, at=at)

    def _events(self, envelope: Envelope, decision: Decision, data: dict[str, Any]) -> list[Event]:
        return records.of(envelope, decision, node=self._node, lane=self._lane, at=time.time(), data=data)

    def _event(self, name: EventName, envelope: Envelope, data: dict[str, Any]) -> Event:
        return records.record(name, envelope, data, node=self._node, at=time.time())


def digest_of(envelope: Envelope) -> str:
    """Return what tells a copy of a ticket from another one under its id; the body itself stays opaque (P11).

    A client that repeats itself may wrap the same contents in other bytes, as multipart boundaries are never the same;
    where that can be, the door has said what the contents are.
    """
    admission = envelope.admission
    said = admission.contents if admission is not None else ""
    return said or hashlib.sha256(envelope.body).hexdigest()


async def _both(first: Awaitable[None], second: Awaitable[None]) -> None:
    """Await both to their end, then raise what failed: neither may go on unobserved."""
    for result in await asyncio.gather(first, second, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
