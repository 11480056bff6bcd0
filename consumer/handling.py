"""One delivery from its claim to its settlement.

Owns the runs under way. Decides nothing itself (claim, verdict) and acknowledges nothing itself (settlement).
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, assert_never

from consumer import metrics
from consumer.account import Account
from consumer.claim import Discard, Quarantine, Reclaim, Run, claim
from consumer.dependencies import Dependencies, Pass
from consumer.endings import ended, order, unlicensed, unstarted, vanished
from consumer.execution import Executor, RunReport
from consumer.fence import (
    Conflict,
    Fence,
    FenceRefuses,
    FenceUnavailable,
    Licensed,
    Pardoned,
    Superseded,
    mark_of,
    token_of,
)
from consumer.guard import Guard
from consumer.heart import Heart
from consumer.link import Link
from consumer.patience import Patience
from consumer.policy import Policies, Policy
from consumer.read_ahead import ReadAhead
from consumer.reclaiming import Decided, Reclaiming, Vanished, Waiting
from consumer.roundup import Roundup
from consumer.session import Delivery, SessionLost
from consumer.settings import Settings
from consumer.settlement import Settlement, digest_of
from consumer.storm import DEATHS
from consumer.suspicion import suspicion
from consumer.traced import TracedRoads
from consumer.unstarted import Unstarted
from consumer.verdict import Decision, Ending, decide, end_at_claim, pardon
from gateway.contract.envelope import Envelope, Malformed, decode, malformed_by
from gateway.contract.ids import uuid7
from gateway.contract.journal import Verdict
from gateway.contract.logs import event
from gateway.contract.outcomes import Outcome
from gateway.contract.topology import Lane
from gateway.contract.trace_context import TraceContext

log = logging.getLogger("consumer.handling")


class Handling:
    """Handles the deliveries of one node; each in a task of the supervisor's.

    `is_withdrawing` tells that nothing may start any more, `outage_window` what P8 says of redeliveries now.
    """

    def __init__(
        self,
        settings: Settings,
        executor: Executor,
        fence: Fence,
        settlement: Settlement,
        heart: Heart,
        *,
        guard: Guard,
        is_withdrawing: Callable[[], bool],
        outage_window: Callable[[], float | None],
        roads: TracedRoads,
    ) -> None:
        self._settings = settings
        self._name = settings.name
        self._executor = executor
        self._fence = fence
        self._settlement = settlement
        self._heart = heart
        self._reclaiming = Reclaiming(settings, fence, settlement, heart)
        self._guard = guard
        self._is_withdrawing = is_withdrawing
        self._outage_window = outage_window
        self.policies: Policies = settings.policies
        """What is allowed now; each delivery keeps the policy that it was claimed with."""
        self.patience = Patience()
        self.dependencies = Dependencies(settings)
        self._read_ahead = ReadAhead()
        self.roundup = Roundup()
        self.running: dict[str, Link] = {}
        """Runs under way, each with the session that its claim hangs on."""
        self.unstarted = Unstarted(self._give_back_late)
        """Those of them that no worker has heard of yet."""
        self._steps: set[asyncio.Task[None]] = set()
        self._on_road = roads.of_runs(self._run_licensed)
        self._reclaim_on_road = roads.of_reclaims(self._reclaim)

    async def handle(self, link: Link, delivery: Delivery) -> None:
        """Claim, run and settle one delivery; raises nothing."""
        with contextlib.suppress(SessionLost):  # the broker's copy is the truth; it comes back as a redelivery (P3)
            await self._settle_somehow(link, delivery)
            await link.intake.widen(self._ahead())

    async def _settle_somehow(self, link: Link, delivery: Delivery) -> None:
        try:
            await self._claim_and_settle(link, delivery)
        except SessionLost:
            raise
        except FenceRefuses as error:
            detail = f"the store refuses what is to be recorded of it: {error}"
            await self._settlement.settle_malformed(link, delivery, malformed_by(delivery.wire, detail))
        except Exception as error:
            event(log, "delivery.bug", logging.CRITICAL, tag=delivery.tag, redelivered=delivery.redelivered)
            log.exception("an unforeseen error while handling a delivery")
            if link.intake.holds(delivery):  # else it was settled before, and nothing is owed to it any more
                await self._set_aside(link, delivery, error)

    async def _set_aside(self, link: Link, delivery: Delivery, error: Exception) -> None:
        """End the session over what nobody foresaw; what brings it about a second time goes to quarantine raw (P12)."""
        if delivery.redelivered:
            try:
                detail = f"handling it failed twice, last with {type(error).__name__}: {error}"
                await self._settlement.settle_malformed(link, delivery, malformed_by(delivery.wire, detail))
            except SessionLost:
                return
            except Exception:
                log.exception("a delivery could not even be set aside")
            else:
                return
        link.session.end("unforeseen error while handling a delivery")

    async def _claim_and_settle(self, link: Link, delivery: Delivery) -> None:
        item = decode(delivery.wire)
        policy = self.policies.of(item.kind)
        licensed = claim(
            item, redelivered=delivery.redelivered, policy=policy, outage_window=self._outage_window(), now=time.time()
        )
        match licensed:
            case Quarantine(item=Malformed() as malformed):
                await self._settlement.settle_malformed(link, delivery, malformed)
            case Quarantine(item=Envelope() as envelope, reason=reason, detail=detail):
                await self._end(link, delivery, envelope, end_at_claim(envelope, Verdict.QUARANTINE, reason, detail))
            case Discard(envelope=envelope, reason=reason, detail=detail):
                await self._end(link, delivery, envelope, end_at_claim(envelope, Verdict.DISCARD, reason, detail))
            case Reclaim():
                await self._reclaim_on_road(link, delivery, licensed, policy)
            case Run(envelope=envelope):
                await self._run(link, delivery, envelope, policy)
            case Quarantine():
                raise AssertionError("a quarantined item is an envelope or malformed")
            case _:
                assert_never(licensed)

    async def _reclaim(self, link: Link, delivery: Delivery, reclaim: Reclaim, policy: Policy) -> Decision | None:
        envelope = reclaim.envelope
        match await self._reclaiming.look(link, reclaim, mark_of(delivery.wire.message_id)):
            case Vanished(outcome=outcome, holder=holder, waited=waited):
                metrics.RECLAIMS.labels(self._kind(envelope), outcome).inc()
                spent = await self._account(link, envelope).known()
                ending = vanished(envelope, outcome, spent, holder)
                told = {"waited": waited, "holder": holder}
                return await self._decide_and_settle(link, delivery, envelope, policy, ending, **told)
            case Decided(decision=decision, waited=waited):
                return await self._settle(link, delivery, envelope, decision, waited=waited)
            case Waiting(loss=loss, delay=delay, unanswered=unanswered):
                event(
                    log, "loss.waiting", ticket=envelope.ticket, stamp=envelope.stamp, holder=loss.holder, delay=delay
                )
                since = envelope.waiting_since or time.time() if unanswered else envelope.waiting_since
                waiting = replace(envelope, loss=loss, waiting_since=since)
                await self._settlement.postpone(link, delivery, waiting, delay)
            case Superseded() | Conflict() as stale:
                await self._drop(link, delivery, envelope, stale)
        return None

    async def _end(self, link: Link, delivery: Delivery, envelope: Envelope, decision: Decision) -> None:
        """End what may not start any more; the store's word is good to have, but nothing here waits for it for ever."""
        await self._settle(link, delivery, envelope, decision, patience=self._settings.fence_patience)

    async def _drop(self, link: Link, delivery: Delivery, envelope: Envelope, stale: Superseded | Conflict) -> None:
        metrics.FENCE_DROPS.inc()
        await self._settlement.settle_stale(link, delivery, envelope, stale)

    async def _run(self, link: Link, delivery: Delivery, envelope: Envelope, policy: Policy) -> None:
        admitted = self.dependencies.admit(link, envelope, policy)
        if isinstance(admitted, Ending):
            await self._decide_and_settle(link, delivery, envelope, policy, admitted)
            return
        try:
            await self._license_and_run(link, delivery, envelope, policy, admitted)
        finally:
            self.dependencies.leave(admitted)

    async def _license_and_run(
        self, link: Link, delivery: Delivery, envelope: Envelope, policy: Policy, admitted: Pass
    ) -> None:
        run = uuid7()
        digest = digest_of(envelope)
        license_it = partial(
            self._fence.license,
            envelope.ticket,
            envelope.stamp,
            holder=self._heart.life,
            now=time.time(),
            digest=digest,
            token=token_of(mark_of(delivery.wire.message_id), run[-18:]),
        )
        try:
            patience = self._settings.fence_patience
            if self._guard.may_err:
                await self._settlement.ask_fence(link, self._guard.look, unless=self._is_withdrawing, patience=patience)
            answer = await self._settlement.ask_fence(link, license_it, unless=self._is_withdrawing, patience=patience)
        except FenceUnavailable:
            await self._give_back(link, delivery, envelope, policy)
            return
        match answer:
            case Licensed():
                await self._on_road(link, delivery, envelope, policy, admitted, run=run, digest=digest)
            case Pardoned():
                await self._settle(link, delivery, envelope, pardon())
            case Superseded() | Conflict():
                await self._drop(link, delivery, envelope, answer)

    async def _run_licensed(
        self,
        link: Link,
        delivery: Delivery,
        envelope: Envelope,
        policy: Policy,
        admitted: Pass,
        *,
        run: str,
        digest: str,
        trace: TraceContext | None = None,
    ) -> Decision | None:
        if self._settings.lane is Lane.SUSPECTS:  # it may take the whole node along: that it started is told before
            await link.journal.write(self._settlement.started(envelope, at=time.time()))
        report = await self._execute(link, envelope, policy, run=run, trace=trace)
        metrics.RUN_SECONDS.observe(report.seconds)
        if report.seconds:
            self._read_ahead.ran(report.seconds, len(envelope.body))
        report = await self._judged(link, envelope, report)
        ending = ended(envelope, report, self._name)
        ending = self.dependencies.ended(link, admitted, report, ending)
        return await self._decide_and_settle(
            link,
            delivery,
            envelope,
            policy,
            ending,
            digest=digest,
            evidence=report.evidence,
            build=self._executor.build,
        )

    async def _judged(self, link: Link, envelope: Envelope, report: RunReport) -> RunReport:
        """Return how a run counts; what a node gives back since it takes nothing more must not come straight back."""
        if report.outcome in DEATHS:
            try:
                await self._settlement.ask_fence(
                    link,
                    lambda: self._guard.mourn(envelope, report),
                    unless=lambda: self._settlement.leaves,
                    at_least_once=True,
                )
            except FenceUnavailable:  # the node ends, and nobody will know more about it
                return report
        counted = self._guard.counted(envelope, report)
        if self._is_withdrawing() and counted.outcome is Outcome.RELEASED:
            with contextlib.suppress(SessionLost):  # that it is not charged goes on record all the same
                await link.intake.paused()
        return counted

    async def _give_back(self, link: Link, delivery: Delivery, envelope: Envelope, policy: Policy) -> None:
        """Give back uncharged what the store licensed to nobody."""
        if self._is_withdrawing():
            await link.intake.paused()  # or it would come straight back
            ending = unstarted(envelope, self._name)
        else:
            ending = unlicensed(envelope, self._name)
        decision = decide(envelope, ending, policy, jitter=random.random())
        await self._settle(link, delivery, envelope, decision, patience=0.0)

    async def _execute(
        self, link: Link, envelope: Envelope, policy: Policy, *, run: str, trace: TraceContext | None
    ) -> RunReport:
        if link.session.is_lost:
            raise SessionLost("the claim is gone")
        ordered = order(envelope, self.patience.within(policy), run=run, trace=trace)
        account = self._account(link, envelope)

        def tell(worker: int) -> None:
            self._fence.begin(envelope.ticket, envelope.stamp)
            account.open(ordered.deadline)
            self.unstarted.discard(run)
            now, submitted_at = time.time(), envelope.submitted_at
            metrics.count_start(
                self._kind(envelope), self._settings.lane, age=now - submitted_at if submitted_at else None
            )
            if self._has_line(envelope):
                event(log, "run.started", ticket=envelope.ticket, kind=envelope.kind, stamp=envelope.stamp, pid=worker)
            if self._settings.lane is Lane.WORK:
                link.journal.note_start(
                    envelope.ticket,
                    envelope.stamp,
                    partial(self._settlement.started, envelope, at=now, worker=worker),
                )

        self.running[run] = link
        self.unstarted.add(run)
        try:
            return await self._executor.run(ordered, started=tell, spent=account.keep)
        finally:
            del self.running[run]
            self.unstarted.discard(run)

    async def _decide_and_settle(
        self, link: Link, delivery: Delivery, envelope: Envelope, policy: Policy, ending: Ending, **data: Any
    ) -> Decision | None:
        decision = decide(envelope, ending, policy, jitter=random.random(), reclaim_floor=self._reclaiming.floor)
        return await self._settle(link, delivery, envelope, decision, **data)

    async def _settle(
        self, link: Link, delivery: Delivery, envelope: Envelope, decision: Decision, **data: Any
    ) -> Decision | None:
        done = await self._settlement.settle(link, delivery, envelope, decision, **data)
        if done is None:
            metrics.FENCE_DROPS.inc()
            return None
        became = suspicion(envelope, done)
        metrics.count(self._kind(envelope), done, became)
        if done.outcome is not None:
            self.roundup.add(done.outcome)
        is_ordinary = done.verdict is Verdict.ACK and became is None and not delivery.redelivered
        if is_ordinary and not self._has_line(envelope):
            return done
        event(
            log,
            f"run.{done.outcome}" if done.outcome else "claim.pardoned" if done.pardoned else "claim.refused",
            logging.INFO if done.verdict in {Verdict.ACK, Verdict.RELEASE} else logging.WARNING,
            ticket=envelope.ticket,
            kind=envelope.kind,
            stamp=envelope.stamp,
            verdict=done.verdict,
            reason=done.reason or "-",
            code=(done.record and done.record.code) or "-",
            delay=round(done.delay, 2),
            suspicion=became or "-",
            detail=done.detail or "-",
        )
        return done

    def _give_back_late(self, runs: list[str]) -> None:
        """Give back what was read ahead and waits behind runs that have become long."""
        if any(self.running[run].intake.holds_more for run in runs):
            self._read_ahead.stalled()
            step = asyncio.create_task(self._step_aside(runs), name="step-aside")
            self._steps.add(step)
            step.add_done_callback(self._steps.discard)

    async def _step_aside(self, runs: list[str]) -> None:
        for link in {self.running[run] for run in runs if run in self.unstarted}:
            with contextlib.suppress(SessionLost):  # or it would come straight back
                await link.intake.step_aside()
        for run in runs:
            if run in self.unstarted:
                self._executor.revoke(run, outcome=Outcome.RELEASED, grace=0)

    def _ahead(self) -> int:
        """Return how many deliveries may be here beyond the slots (P5): never any in isolation.

        What is read ahead waits for one run at most, and both have to fit into the broker's patience.
        """
        if self._settings.lane is not Lane.WORK or self.patience.seconds is not None:
            return 0
        allowance = self._read_ahead.allowance(self._executor.slots, deep=self._fence.tells_begun)
        return allowance if allowance and 2 * self.policies.longest_run <= self._settings.run_room else 0

    def _has_line(self, envelope: Envelope) -> bool:
        """Tell whether the log has a line for a start, and for its success: something has been the matter before."""
        return self._settings.log_runs or envelope.history.newest is not None or envelope.suspect is not None

    def _account(self, link: Link, envelope: Envelope) -> Account:
        return Account(self._settlement, self._fence, link, envelope)

    def _kind(self, envelope: Envelope) -> str:
        """Return a metric label for the kind: anybody may invent kinds, a label may not grow with them."""
        return envelope.kind if envelope.kind in self.policies.by_kind else "other"
