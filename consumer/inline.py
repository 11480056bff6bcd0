"""Runs orders in the supervisor's own loop: for `async def` handlers that need no isolation.

Gives the same reports as worker processes, except for what nobody can give without a process: a handler that blocks
blocks the node, one that dies takes the node along, memory has no ceiling, and `run.spend`, which must not block,
returns before what it reports is durable: only the run's report waits for that. Tickets are read, and those that came
past the door examined, on the loop of the node: the one exception to the rule that a supervisor looks at no body (P11).
A large one holds up everything for as long as that takes. Owns one asyncio task for each run, and never lets what a
handler raises reach the loop.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from consumer import memory
from consumer.briefing import briefing
from consumer.census import Census, WorkerSight
from consumer.evidence import Trial, conclude, hear, unstarted
from consumer.execution import ExecutorUnavailable, RunOrder, RunReport
from consumer.forbearance import Forbearance
from consumer.handler import Run
from consumer.intentions import Cause, Phase
from consumer.pipe import Finished, Progress, Spend
from consumer.spending import Keep, Spending
from consumer.worker.goodbye import farewell
from consumer.worker.loading import Handler, HandlerUnavailable, load
from consumer.worker.reading import Reader, limits_from
from consumer.worker.runner import MAX_MESSAGE, account, prepare
from consumer.worker.stacks import where
from gateway.contract.outcomes import Outcome
from gateway.contract.text import clip
from gateway.preflight import VocabularyError

_HANGING: Final = frozenset({Cause.DEADLINE, Cause.SILENT})
_CANCEL_PATIENCE: Final = 5.0
"""Seconds that a cancelled handler may take; after that it is left behind, and reported."""


@dataclass(slots=True)
class _InlineLine:
    """The run's `Line` when there is no pipe."""

    trial: Trial
    spending: Spending
    loop: asyncio.AbstractEventLoop
    heartbeat: Forbearance | None = None
    taken: bool = False
    over: bool = False
    """The run has its report; whoever still holds this is not heard."""
    reports: int = 0

    def spend(self, tokens: int, usd: float) -> None:
        self.loop.call_soon_threadsafe(self._note, tokens, usd)  # a handler may be in a thread of its own making

    def heard(self) -> None:
        """The handler has given a sign of life, or waits for what is not in its power."""
        if self.heartbeat is not None:
            self.heartbeat.renew()

    def _note(self, tokens: int, usd: float) -> None:
        if self.over:
            return
        self.heard()
        self.reports += 1
        hear(self.trial, Spend(run=self.trial.order.run, number=self.reports, tokens=tokens, usd=usd))
        self.spending.heard(self.reports, self.trial.spent)

    def progress(self, text: str) -> None:
        self.heard()
        hear(self.trial, Progress(run=self.trial.order.run, text=clip(str(text), MAX_MESSAGE)))

    def lost(self) -> bool:
        return self.taken or self.over


@dataclass(slots=True)
class _UnderWay:
    line: _InlineLine
    over: asyncio.Future[Finished | None]
    """Done when the handler has ended, or was cancelled and has had its time: then with nothing."""
    handling: asyncio.Task[None] | None = None
    cause: Cause = Cause.FINISHED
    grace: asyncio.TimerHandle | None = None
    patience: asyncio.TimerHandle | None = None

    def end(self, finished: Finished | None = None) -> None:
        """Let the run be reported, whether its handler has ended or not."""
        if not self.over.done():
            self.over.set_result(finished)


class Inline:
    """At most `slots` runs at once, each a task in this loop."""

    def __init__(self, handler: Handler, reader: Reader, *, slots: int) -> None:
        self._handler = handler
        self._reader = reader
        self._slots = slots
        self._busy = 0
        self._runs: dict[str, _UnderWay] = {}
        self._waiting: dict[str, asyncio.Future[RunReport | None]] = {}
        """By run, in their order: done with None when a slot is handed over, with a report when there will be none."""
        self._called: dict[str, RunReport | None] = {}
        """By run: those that have been handed a slot and have not taken it yet, with a report if they are not to."""
        self._begun = 0
        self._pid = os.getpid()
        self._stopping = False

    @classmethod
    def load(cls, handler: str, *, slots: int, limits: Mapping[str, Any] | None = None, warm: bool = False) -> "Inline":
        """Load `package.module:function`, which must be `async def`; raises ExecutorUnavailable otherwise.

        `warm` loads the vocabulary now and not with the first text that needs it, which holds up everything.
        """
        fields = dict(limits or {})
        encoding, depot = str(fields.pop("encoding", "o200k_base")), str(fields.pop("depot", ""))
        try:
            found = load(handler)
            reader = Reader(limits=limits_from(fields), encoding=encoding, depot=depot)
            if warm:
                reader.warm()
        except HandlerUnavailable as error:
            raise ExecutorUnavailable(f"{error}\n{error.traceback}".rstrip()) from error
        except VocabularyError as error:
            raise ExecutorUnavailable(str(error)) from error
        if not found.is_async:
            raise ExecutorUnavailable(
                f"{handler} is a plain def, which would block the whole node: make it `async def`, "
                "or leave out --isolation inline"
            )
        return cls(found, reader, slots=slots)

    @property
    def slots(self) -> int:
        """How many runs can be under way at once."""
        return self._slots

    @property
    def ready(self) -> int:
        """All slots, always: there is no worker to wait for."""
        return self._slots

    @property
    def build(self) -> str:
        """Identifies the handler's code."""
        return self._handler.build

    def census(self) -> Census:
        """Return this process as its only worker: everything runs in it."""
        phase = Phase.BUSY if self._runs else Phase.IDLE
        own = WorkerSight(pid=self._pid, phase=phase, runs=self._begun, resident=memory.own())
        return Census(workers=[own])

    async def start(self) -> None:
        """Nothing is left to make ready."""

    async def run(
        self, order: RunOrder, *, started: Callable[[int], None] | None = None, spent: Keep | None = None
    ) -> RunReport:
        """Run one order to its end. `started` gets the process id of this node."""
        if (refusal := await self._slot(order.run)) is not None:
            return refusal
        try:
            if started is not None:
                started(self._pid)
            return await self._run(order, spent)
        finally:
            self._hand_over()

    def revoke(self, run: str, *, outcome: Outcome, grace: float) -> None:
        """Take a run's claim away: `run.lost` says so at once, the handler is cancelled after `grace` seconds."""
        if run in self._waiting:
            _answer(self._waiting.pop(run), unstarted(outcome, "revoked", now=time.time()))
        elif run in self._called:
            self._called[run] = unstarted(outcome, "revoked", now=time.time())
        if (under_way := self._runs.get(run)) is None:
            return
        under_way.line.taken = True
        under_way.line.trial.revoked_with = outcome
        if under_way.grace is not None:
            under_way.grace.cancel()
        under_way.grace = asyncio.get_running_loop().call_later(grace, self._cancel, under_way, Cause.REVOKED)

    async def stop(self) -> None:
        """Cancel what still runs and wait for it."""
        self._stopping = True
        while self._waiting:
            _, turn = self._waiting.popitem()
            _answer(turn, unstarted(Outcome.RELEASED, "stopped", now=time.time()))
        for run in self._called:
            self._called[run] = unstarted(Outcome.RELEASED, "stopped", now=time.time())
        for under_way in list(self._runs.values()):
            self._cancel(under_way, Cause.STOPPED)
        handlings = [under_way.handling for under_way in self._runs.values() if under_way.handling is not None]
        if handlings:
            await asyncio.wait(handlings, timeout=_CANCEL_PATIENCE)
        await asyncio.wait([asyncio.create_task(farewell())], timeout=_CANCEL_PATIENCE)

    async def _slot(self, run: str) -> RunReport | None:
        """Take a slot, as soon as there is one; returns the report of a run that is to get none."""
        if self._stopping:
            return unstarted(Outcome.RELEASED, "stopped", now=time.time())
        if self._busy < self._slots:
            self._busy += 1
            return None
        turn: asyncio.Future[RunReport | None] = asyncio.get_running_loop().create_future()
        self._waiting[run] = turn
        try:
            refusal = await turn
        except asyncio.CancelledError:
            self._waiting.pop(run, None)
            self._called.pop(run, None)
            if not turn.cancelled() and turn.result() is None:
                self._hand_over()
            raise
        if refusal is None and (refusal := self._called.pop(run)) is not None:
            self._hand_over()
        return refusal

    def _hand_over(self) -> None:
        """Give a slot that is free to whoever has waited longest."""
        while self._waiting:
            run = next(iter(self._waiting))
            if _answer(self._waiting.pop(run), None):
                self._called[run] = None
                return
        self._busy -= 1

    async def _run(self, order: RunOrder, spent: Keep | None) -> RunReport:
        loop = asyncio.get_running_loop()
        self._begun += 1
        trial = Trial(order=order, build=self.build, worker=self._pid, started=time.time(), begun=time.monotonic())
        spending = Spending(order.ticket, spent, _acknowledge_nothing)
        line = _InlineLine(trial, spending, loop)
        under_way = self._runs[order.run] = _UnderWay(line, loop.create_future())
        under_way.handling = loop.create_task(self._handle(order, under_way))
        deadline = loop.call_later(order.deadline, self._overdue, under_way, Cause.DEADLINE)
        if order.heartbeat > 0:
            line.heartbeat = Forbearance(
                order.heartbeat,
                lambda: self._overdue(under_way, Cause.SILENT),
                listen=lambda: line.heard() if spending.pending else None,
            )
        try:
            finished = await under_way.over
        finally:
            deadline.cancel()
            if line.heartbeat is not None:
                line.heartbeat.cancel()
            if under_way.grace is not None:
                under_way.grace.cancel()
            if under_way.patience is not None:
                under_way.patience.cancel()
            del self._runs[order.run]
        line.over = True
        # One that was cancelled may have caught that and returned, or raised something else: it did not end by itself.
        if under_way.cause is Cause.FINISHED:
            trial.finished = finished
        report = conclude(trial, under_way.cause, None, "", time.monotonic())
        await spending.settled()
        return report

    async def _handle(self, order: RunOrder, under_way: _UnderWay) -> None:
        """End the run with its account, whatever is raised: what leaves this task would end the node (`SystemExit`), or
        leave a delivery without an ending (a panic of an extension module).
        """
        line = under_way.line
        run: Run | None = None
        try:
            prepared = prepare(briefing(order), self._reader, line, lambda found: hear(line.trial, found))
            if isinstance(prepared, Finished):
                finished = prepared
            else:
                run = prepared
                await self._handler.call(run)
                await _hear_own_end()
                finished = Finished(run=order.run, outcome=Outcome.SUCCEEDED, gave_up=run.knows_of_loss)
        except BaseException as error:  # noqa: BLE001 - also our own cancellation; then its cause is what counts
            finished = replace(account(order.run, error), gave_up=run is not None and run.knows_of_loss)
        under_way.end(finished)

    def _overdue(self, under_way: _UnderWay, cause: Cause) -> None:
        self._cancel(under_way, Cause.REVOKED if under_way.line.taken else cause)

    @staticmethod
    def _cancel(under_way: _UnderWay, cause: Cause) -> None:
        handling = under_way.handling
        if under_way.cause is not Cause.FINISHED or handling is None or under_way.over.done():
            return
        under_way.cause = cause
        if cause in _HANGING:
            under_way.line.trial.stack = where(handling)
        handling.add_done_callback(lambda _: under_way.end())  # it may never have begun
        handling.cancel()
        under_way.patience = asyncio.get_running_loop().call_later(_CANCEL_PATIENCE, under_way.end)


async def _hear_own_end() -> None:
    """Raise the cancellation that a handler has asked for itself and then returned before it came."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        await asyncio.sleep(0)


def _acknowledge_nothing(_number: int) -> None:
    """Nobody waits for it inline."""


def _answer(turn: asyncio.Future[RunReport | None], report: RunReport | None) -> bool:
    """End somebody's wait for a slot; False when he has been cancelled and does not wait any more."""
    if turn.done():
        return False
    turn.set_result(report)
    return True
