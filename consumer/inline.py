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
from dataclasses import dataclass, replace
from typing import Any, Final

from consumer.briefing import briefing
from consumer.evidence import Trial, conclude, hear, unstarted
from consumer.execution import ExecutorUnavailable, RunOrder, RunReport
from consumer.forbearance import Forbearance
from consumer.handler import Run
from consumer.intentions import Cause
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
    handling: asyncio.Task[Finished]
    abandoned: asyncio.Future[None]
    """Done when a cancelled handler has had its time."""
    cause: Cause = Cause.FINISHED
    grace: asyncio.TimerHandle | None = None
    patience: asyncio.TimerHandle | None = None


class Inline:
    """At most `slots` runs at once, each a task in this loop."""

    def __init__(self, handler: Handler, reader: Reader, *, slots: int) -> None:
        self._handler = handler
        self._reader = reader
        self._slots = slots
        self._free = asyncio.Semaphore(slots)
        self._runs: dict[str, _UnderWay] = {}
        self._waiting: dict[str, Outcome | None] = {}
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

    async def start(self) -> None:
        """Nothing is left to make ready."""

    async def run(
        self, order: RunOrder, *, started: Callable[[int], None] | None = None, spent: Keep | None = None
    ) -> RunReport:
        """Run one order to its end. `started` gets the process id of this node."""
        self._waiting[order.run] = None
        async with self._free:
            taken = self._waiting.pop(order.run)
            if taken is not None or self._stopping:
                return unstarted(taken or Outcome.RELEASED, "revoked" if taken else "stopped", now=time.time())
            if started is not None:
                started(os.getpid())
            return await self._run(order, spent)

    def revoke(self, run: str, *, outcome: Outcome, grace: float) -> None:
        """Take a run's claim away: `run.lost` says so at once, the handler is cancelled after `grace` seconds."""
        if run in self._waiting:
            self._waiting[run] = outcome
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
        for under_way in list(self._runs.values()):
            self._cancel(under_way, Cause.STOPPED)
        handlings = [under_way.handling for under_way in self._runs.values()]
        if handlings:
            await asyncio.wait(handlings, timeout=_CANCEL_PATIENCE)
        await asyncio.wait([asyncio.create_task(farewell())], timeout=_CANCEL_PATIENCE)

    async def _run(self, order: RunOrder, spent: Keep | None) -> RunReport:
        loop = asyncio.get_running_loop()
        trial = Trial(order=order, build=self.build, worker=os.getpid(), started=time.time(), begun=loop.time())
        spending = Spending(order.ticket, spent, lambda _number: None)
        line = _InlineLine(trial, spending, loop)
        handling = loop.create_task(self._handle(order, line))
        under_way = _UnderWay(line=line, handling=handling, abandoned=loop.create_future())
        self._runs[order.run] = under_way
        deadline = loop.call_later(order.deadline, self._overdue, under_way, Cause.DEADLINE)
        if order.heartbeat > 0:
            line.heartbeat = Forbearance(
                order.heartbeat,
                lambda: self._overdue(under_way, Cause.SILENT),
                listen=lambda: line.heard() if spending.pending else None,
            )
        try:
            ends: list[asyncio.Future[Any]] = [handling, under_way.abandoned]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
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
            cancelled = handling.cancelled()  # not by us: it asked for its own end and then returned
            trial.finished = account(order.run, asyncio.CancelledError()) if cancelled else handling.result()
        report = conclude(trial, under_way.cause, None, "", loop.time())
        await spending.settled()
        return report

    async def _handle(self, order: RunOrder, line: _InlineLine) -> Finished:
        """Return the run's account, whatever is raised: what leaves this task would end the node (`SystemExit`), or
        leave a delivery without an ending (a panic of an extension module). Only our own cancellation passes.
        """
        run: Run | None = None
        try:
            match prepare(briefing(order), self._reader, line, lambda found: hear(line.trial, found)):
                case Finished() as refusal:
                    return refusal
                case Run() as run:
                    await self._handler.call(run)
            finished = Finished(run=order.run, outcome=Outcome.SUCCEEDED)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and self._is_cancelled(order.run):
                raise
            finished = account(order.run, error)
        return replace(finished, gave_up=run is not None and run.knows_of_loss)

    def _is_cancelled(self, run: str) -> bool:
        return run in self._runs and self._runs[run].cause is not Cause.FINISHED

    def _overdue(self, under_way: _UnderWay, cause: Cause) -> None:
        self._cancel(under_way, Cause.REVOKED if under_way.line.taken else cause)

    @staticmethod
    def _cancel(under_way: _UnderWay, cause: Cause) -> None:
        if under_way.cause is not Cause.FINISHED or under_way.handling.done():
            return
        under_way.cause = cause
        if cause in _HANGING:
            under_way.line.trial.stack = where(under_way.handling)
        under_way.handling.cancel()
        under_way.patience = asyncio.get_running_loop().call_later(_CANCEL_PATIENCE, _abandon, under_way)


def _abandon(under_way: _UnderWay) -> None:
    if not under_way.abandoned.done():
        under_way.abandoned.set_result(None)
