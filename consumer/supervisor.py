"""One fleet node: boot, take deliveries, run, settle, start over after a loss, drain.

Reads as a table of contents. Owns the tasks of the deliveries under way and the order of start and stop; decides
nothing itself (claim, verdict) and acknowledges nothing itself (settlement).
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Coroutine
from typing import Any, Final, TypeVar, assert_never

from consumer import metrics
from consumer.claim import Discard, Quarantine, Reclaim, Run, claim
from consumer.endings import ended, order, unstarted, vanished
from consumer.execution import Executor, RunReport
from consumer.fence import Fence, FenceUnavailable, Licensed
from consumer.intake import Intake
from consumer.journal import Journal
from consumer.link import Link
from consumer.policy import Policies, Policy
from consumer.session import BrokerUnreachable, Delivery, Session, SessionLost
from consumer.settings import Settings
from consumer.settlement import Settlement, digest_of
from consumer.verdict import Decision, Ending, decide, end_at_claim
from gateway.contract.envelope import Envelope, Malformed, decode
from gateway.contract.journal import Verdict
from gateway.contract.logs import event
from gateway.contract.outcomes import Outcome
from gateway.contract.topology import Lane

log = logging.getLogger("consumer.supervisor")

T = TypeVar("T")

BEAT_SECONDS: Final = 5.0
_RECONNECT_FIRST: Final = 0.2
_RECONNECT_CAP: Final = 5.0
_YOUNG_SECONDS: Final = 10.0
_YOUNG_PAUSE_CAP: Final = 30.0
_KILL_SECONDS: Final = 10.0
"""A killed worker's report is here long before this; past it the node ends without it."""
_RECLAIM_MARGIN: Final = 1.0


class Supervisor:
    """Runs one lane of one node until it is told to drain."""

    def __init__(self, settings: Settings, executor: Executor, fence: Fence) -> None:
        self._settings = settings
        self._executor = executor
        self._fence = fence
        self._policies: Policies = settings.policies
        self._topology = settings.topology
        self._settlement = Settlement(self._topology, fence, node=settings.name, lane=settings.lane)
        self._draining = asyncio.Event()
        self._link: Link | None = None
        self._regained_at: float | None = None
        self._young = 0
        self._deliveries: set[asyncio.Task[None]] = set()
        self._running: dict[str, Link] = {}

    @property
    def ready(self) -> bool:
        """Tell whether deliveries are being taken, can be run, and can be settled."""
        taking = self._link is not None and not self._draining.is_set()
        return taking and self._executor.ready > 0 and self._settlement.fence_answers

    @property
    def under_way(self) -> int:
        """Runs that have started and not ended."""
        return len(self._running)

    def drain(self) -> None:
        """Ask for the end: finish or release what is under way, then return from `run`."""
        self._draining.set()

    async def run(self) -> None:
        """Serve until drained; raises BrokerUnreachable or TopologyConflict when the first session cannot be opened."""
        beat = asyncio.create_task(self._beat(), name="beat")
        try:
            session = await self._unless_draining(self._open_session())
            while session is not None:
                opened = time.monotonic()
                await self._serve(session)
                lived = time.monotonic() - opened
                session = None if self._draining.is_set() else await self._regain_session(lived)
        finally:
            beat.cancel()
            await asyncio.gather(beat, return_exceptions=True)
            await self._stop_runs()

    # One session

    async def _open_session(self) -> Session:
        settings = self._settings
        return await Session.open(
            settings.broker_urls,
            self._topology,
            settle=settings.queue_settle,
            confirm_deadline=settings.confirm_deadline,
        )

    async def _serve(self, session: Session) -> None:
        """Take deliveries until the session is lost or the node drains."""
        queue = self._topology.lane_queue(self._settings.lane)
        intake = Intake(session, queue, slots=self._executor.slots, on_delivery=self._take)
        link = self._link = Link(session, Journal(session, self._topology), intake)
        draining = asyncio.create_task(self._draining.wait(), name="draining")
        lost = asyncio.ensure_future(session.lost)
        try:
            await intake.open()
            event(log, "consumer.consuming", queue=queue, slots=self._executor.slots, broker=session.broker_version)
            await asyncio.wait({draining, lost}, return_when=asyncio.FIRST_COMPLETED)
            if not session.is_lost:
                await self._drain(link)
        except SessionLost:
            pass  # told below, like every other loss
        finally:
            draining.cancel()
            self._link = None
            if not self._draining.is_set():
                self._cut_off(link, await session.lost)
            await link.journal.close()
            await session.close()

    def _cut_off(self, link: Link, reason: str) -> None:
        """Tell the runs of a lost session at once; they are killed after a grace shorter than any reclaim (P10)."""
        event(log, "session.lost", logging.WARNING, reason=reason, under_way=len(self._running))
        for run, owner in self._running.items():
            if owner is link:
                self._executor.revoke(run, outcome=Outcome.OUTAGE, grace=self._settings.lost_grace)

    async def _regain_session(self, lived: float) -> Session | None:
        """Return the next session however long the broker is away, or None when told to drain meanwhile.

        `lived` is how many seconds the last one did: sessions that die young, whatever of, are followed by a pause
        that grows, or one bad delivery would spin the node, and its neighbours, up to the broker's delivery limit.
        """
        self._young = self._young + 1 if lived < _YOUNG_SECONDS else 0
        if self._young > 1:
            await self._drain_within(min(_RECONNECT_FIRST * 2**self._young, _YOUNG_PAUSE_CAP))
        pause = _RECONNECT_FIRST
        while not self._draining.is_set():
            try:
                session = await self._unless_draining(self._open_session())
            except BrokerUnreachable as error:
                event(log, "broker.unreachable", logging.WARNING, error=error, retry_after=round(pause, 2))
                await self._drain_within(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, _RECONNECT_CAP)
            else:
                self._regained_at = time.monotonic()
                return session
        return None

    async def _drain_within(self, seconds: float) -> None:
        """Let time pass, less of it when told to drain."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._draining.wait(), seconds)

    async def _unless_draining(self, step: Coroutine[Any, Any, T]) -> T | None:
        """Await a step that may take long; None when told to drain first."""
        running = asyncio.create_task(step)
        draining = asyncio.create_task(self._draining.wait())
        try:
            await asyncio.wait({running, draining}, return_when=asyncio.FIRST_COMPLETED)
            return running.result() if running.done() else None
        finally:
            draining.cancel()
            running.cancel()
            await asyncio.gather(draining, running, return_exceptions=True)

    # One delivery

    def _outage_window(self) -> float | None:
        """Return the window while redeliveries may be the doing of this node's own lost connection, else None (P8).

        It begins when the connection is back, not when it was lost: a broker may be away for longer than any window.
        """
        window = self._settings.outage_window
        regained = self._regained_at
        return window if regained is not None and time.monotonic() - regained <= window else None

    def _take(self, delivery: Delivery) -> None:
        link = self._link
        if link is None or link.session is not delivery.session:
            return  # its session is over: the broker has it back already
        task = asyncio.create_task(self._handle(link, delivery), name=f"delivery-{delivery.tag}")
        self._deliveries.add(task)
        task.add_done_callback(self._deliveries.discard)

    async def _handle(self, link: Link, delivery: Delivery) -> None:
        try:
            await self._claim_and_settle(link, delivery)
            await link.intake.widen()
        except SessionLost:
            pass  # the broker's copy is the truth; it comes back as a redelivery (P3)
        except Exception:
            event(log, "delivery.bug", logging.CRITICAL, tag=delivery.tag, redelivered=delivery.redelivered)
            log.exception("an unforeseen error while handling a delivery; the session starts over")
            link.session.end("unforeseen error while handling a delivery")

    async def _claim_and_settle(self, link: Link, delivery: Delivery) -> None:
        item = decode(delivery.wire)
        policy = self._policies.of(item.kind)
        licensed = claim(
            item, redelivered=delivery.redelivered, policy=policy, outage_window=self._outage_window(), now=time.time()
        )
        match licensed:
            case Quarantine(item=Malformed() as malformed):
                await self._settlement.settle_malformed(link, delivery, malformed)
            case Quarantine(item=Envelope() as envelope, reason=reason, detail=detail):
                await self._settle(link, delivery, envelope, end_at_claim(envelope, Verdict.QUARANTINE, reason, detail))
            case Discard(envelope=envelope, reason=reason, detail=detail):
                await self._settle(link, delivery, envelope, end_at_claim(envelope, Verdict.DISCARD, reason, detail))
            case Reclaim(envelope=envelope, outcome=outcome):
                metrics.RECLAIMS.labels(self._kind(envelope), outcome).inc()
                await self._decide_and_settle(link, delivery, envelope, policy, vanished(envelope, outcome))
            case Run(envelope=envelope):
                await self._run(link, delivery, envelope, policy)
            case Quarantine():
                raise AssertionError("a quarantined item is an envelope or malformed")
            case _:
                assert_never(licensed)

    async def _run(self, link: Link, delivery: Delivery, envelope: Envelope, policy: Policy) -> None:
        if self._draining.is_set():
            await link.intake.paused()
            await self._decide_and_settle(link, delivery, envelope, policy, unstarted(envelope, self._settings.name))
            return
        digest = digest_of(envelope)
        answer = await self._settlement.ask_fence(
            link,
            lambda: self._fence.license(
                envelope.ticket, envelope.stamp, holder=self._settings.name, now=time.time(), digest=digest
            ),
        )
        if not isinstance(answer, Licensed):
            metrics.FENCE_DROPS.inc()
            await self._settlement.settle_stale(link, delivery, envelope, answer)
            return
        started = self._settlement.started(envelope, examine=envelope.admission is None)
        if self._settings.lane is Lane.SUSPECTS:
            await link.journal.write(started)
        else:
            link.journal.note(started)
        report = await self._execute(link, envelope, policy)
        metrics.RUN_SECONDS.observe(report.seconds)
        ending = ended(envelope, report, self._settings.name)
        if delivery.session.is_lost and report.outcome is Outcome.OUTAGE:
            return  # nothing is known that the redelivery's claim does not know as well
        await self._decide_and_settle(
            link, delivery, envelope, policy, ending, evidence=report.evidence, build=self._executor.build
        )

    async def _execute(self, link: Link, envelope: Envelope, policy: Policy) -> RunReport:
        if link.session.is_lost:
            raise SessionLost("the claim is gone")
        ordered = order(envelope, policy)
        metrics.RUNS_STARTED.labels(self._kind(envelope), self._settings.lane).inc()
        event(log, "run.started", ticket=envelope.ticket, kind=envelope.kind, stamp=envelope.stamp)
        self._running[ordered.run] = link
        try:
            return await self._executor.run(ordered)
        finally:
            del self._running[ordered.run]

    async def _decide_and_settle(
        self, link: Link, delivery: Delivery, envelope: Envelope, policy: Policy, ending: Ending, **data: object
    ) -> None:
        decision = decide(
            envelope,
            ending,
            policy,
            jitter=random.random(),
            reclaim_floor=self._settings.lost_grace + _RECLAIM_MARGIN,
        )
        await self._settle(link, delivery, envelope, decision, **data)

    async def _settle(
        self, link: Link, delivery: Delivery, envelope: Envelope, decision: Decision, **data: object
    ) -> None:
        done = await self._settlement.settle(link, delivery, envelope, decision, **data)
        if done is None:
            metrics.FENCE_DROPS.inc()
            return
        metrics.count(self._kind(envelope), done)
        event(
            log,
            f"run.{done.outcome}" if done.outcome else "claim.refused",
            logging.INFO if done.verdict in {Verdict.ACK, Verdict.RELEASE} else logging.WARNING,
            ticket=envelope.ticket,
            kind=envelope.kind,
            stamp=envelope.stamp,
            verdict=done.verdict,
            reason=done.reason or "-",
            code=(done.record and done.record.code) or "-",
            delay=round(done.delay, 2),
            detail=done.detail or "-",
        )

    def _kind(self, envelope: Envelope) -> str:
        """Return a metric label for the kind: anybody may invent kinds, a label may not grow with them."""
        return envelope.kind if envelope.kind in self._policies.by_kind else "other"

    # The end

    async def _drain(self, link: Link) -> None:
        """Stop claiming, give runs their grace, release the rest, tell the journal; each step has its own deadline."""
        grace = self._settings.drain_grace
        event(log, "drain.begun", under_way=len(self._running), grace=grace)
        await link.intake.pause()
        notice = min(self._settings.lost_grace, grace / 2)
        await self._settled_within(grace - notice)
        for run in list(self._running):
            self._executor.revoke(run, outcome=Outcome.RELEASED, grace=notice)
        await self._settled_within(notice + _KILL_SECONDS)
        await link.journal.flush()
        event(log, "drain.done", left=len(self._deliveries))

    async def _settled_within(self, seconds: float) -> None:
        if self._deliveries:
            await asyncio.wait(set(self._deliveries), timeout=seconds)

    async def _stop_runs(self) -> None:
        """End what still runs; without a session its decision is recorded in the fence at the most."""
        for run in list(self._running):
            self._executor.revoke(run, outcome=Outcome.RELEASED, grace=0)
        await self._settled_within(_KILL_SECONDS)
        for task in self._deliveries:
            task.cancel()
        await asyncio.gather(*self._deliveries, return_exceptions=True)

    async def _beat(self) -> None:
        """Tell the store every five seconds that this node is alive."""
        while True:
            try:
                await self._fence.beat(self._settings.name, self._settings.lane, time.time())
            except FenceUnavailable as error:
                event(log, "beat.missed", logging.WARNING, error=error)
            await asyncio.sleep(BEAT_SECONDS)
