"""Runs orders in worker processes: the `Executor` of every node that does not say otherwise.

A thin shell: `fleet` decides, `crew` has the processes, this has the runs: it arms a deadline before a worker hears of
its order, watches memory while it runs, and turns every end into one report. Readers and timers only, so that nothing
can end unseen; the one task that a run may have makes durable what it has spent, and its report waits for that.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from consumer.briefing import HardLimits, briefing
from consumer.census import Census
from consumer.crew import Crew
from consumer.evidence import Death, Trial, conclude, hear, unstarted
from consumer.execution import ExecutorUnavailable, RunOrder, RunReport
from consumer.fleet import Fleet
from consumer.intentions import Assign, Cause, Disclaim, End, Intention
from consumer.leash import Leash
from consumer.pipe import Finished, Grown, Lost, Measured, Progress, Ready, Record, Spend
from consumer.recycle import NEVER, Limits
from consumer.spawn import Blueprint
from consumer.spending import Keep
from consumer.underway import UnderWay
from consumer.upkeep import Upkeep
from gateway.contract.logs import event
from gateway.contract.outcomes import Outcome

_output_log: Final = logging.getLogger("consumer.worker")
_log: Final = logging.getLogger("consumer.pool")

_MEMORY_INTERVAL: Final = 0.05
_PIPE_PATIENCE: Final = 1.0
"""Seconds from the end of a worker's pipe to its own, if it is dying; after that it is killed."""


class Pool:
    """Worker processes forked from one mold.

    For the isolation lane, `fresh` gives every run a new one and `hard` more limits.
    `start_deadline` in seconds is what a fork may take to get ready.
    """

    def __init__(
        self,
        blueprint: Blueprint,
        *,
        slots: int,
        fresh: bool = False,
        hard: HardLimits | None = None,
        start_deadline: float = 10.0,
        recycle: Limits = NEVER,
        hunt: int = 0,
    ) -> None:
        self._hard = hard
        self._fleet = Fleet(slots=slots, fresh=fresh)
        self._upkeep = Upkeep(NEVER if fresh else recycle)
        self._crew = Crew(
            blueprint=blueprint,
            fleet=self._fleet,
            upkeep=self._upkeep,
            start_deadline=start_deadline,
            listener=self,
            act=self._act,
            died=self._on_death,
            hunt=hunt,
        )
        self._open: dict[str, UnderWay] = {}
        self._by_worker: dict[int, UnderWay] = {}
        self._todo: deque[Intention] = deque()
        self._acting = False
        self._look: asyncio.TimerHandle | None = None

    @classmethod
    def launch(
        cls,
        *,
        handler: str,
        slots: int,
        fresh: bool = False,
        hard: HardLimits | None = None,
        limits: Mapping[str, Any] | None = None,
        warm: bool = False,
        start_deadline: float = 10.0,
        recycle: Limits = NEVER,
        hunt: int = 0,
    ) -> "Pool":
        """Return a pool whose mold is loading `handler` (`package.module:function`) already.

        Call it from the main thread, best before the event loop runs. `limits` are fields of
        `gateway.preflight.Limits`, `encoding` and `depot`; `warm` loads the vocabulary once for all workers, else the
        first that needs it does. `recycle` says after how much a worker is replaced by a new one;
        one worker is exempt from that when `hunt` is not 0, and tells every so many runs where its memory grows.
        """
        fields = dict(limits or {})
        encoding, depot = str(fields.pop("encoding", "o200k_base")), str(fields.pop("depot", ""))
        blueprint = Blueprint(handler=handler, limits=fields, encoding=encoding, depot=depot, warm=warm)
        pool = cls(
            blueprint,
            slots=slots,
            fresh=fresh,
            hard=hard,
            start_deadline=start_deadline,
            recycle=recycle,
            hunt=hunt,
        )
        try:
            pool._crew.launch()
        except OSError as error:
            raise ExecutorUnavailable(f"no process could be started to load {handler}: {error}") from error
        return pool

    @property
    def slots(self) -> int:
        """How many runs can be under way at once."""
        return self._fleet.slots

    @property
    def build(self) -> str:
        """Identifies the handler's code; known once started."""
        return self._crew.build

    @property
    def ready(self) -> int:
        """Slots whose worker is there; fewer than `slots` for a moment after a death, never for recycling."""
        return self._fleet.ready

    def worker_pids(self) -> list[int]:
        """Return the process ids of the workers that there are now."""
        return [leash.pid for leash in self._crew.leashes.values() if leash.pid]

    def census(self) -> Census:
        """Return the workers that there are now, and their memory."""
        return self._crew.census()

    def on_growth(self, tell: Callable[[dict[str, Any]], None]) -> None:
        """Have a leak hunt's findings told to somebody, as they are in the log."""
        self._upkeep.tell = tell

    @property
    def mold_pid(self) -> int:
        """The process id of the mold; 0 before there is one."""
        return self._crew.mold_pid

    async def start(self) -> None:
        """Make every slot ready; raises ExecutorUnavailable when that fails, and leaves nothing behind."""
        try:
            await self._crew.start()
        except ExecutorUnavailable:
            await self.stop()
            raise

    async def run(
        self, order: RunOrder, *, started: Callable[[int], None] | None = None, spent: Keep | None = None
    ) -> RunReport:
        """Run one order to its end; waits for a worker if all are busy. `started` gets that one's process id."""
        entry = UnderWay(order, started=started, spent=spent, overdue=self._overdue)
        if order.run in self._open:
            raise ValueError(f"run {order.run} is under way already")
        self._open[order.run] = entry
        self._act(self._fleet.ordered(order.run))
        return await entry.report()

    def revoke(self, run: str, *, outcome: Outcome, grace: float) -> None:
        """Take a run's claim away: told at once, killed after `grace` seconds, reported with `outcome`."""
        entry = self._open.get(run)
        if entry is None:
            return
        entry.revoke(outcome, grace)
        self._act(self._fleet.revoked(run))

    async def stop(self) -> None:
        """End every worker and wait for it; what still runs is killed and reported as released."""
        self._act(self._fleet.stop())
        await self._crew.stop()
        if self._look is not None:
            self._look.cancel()
            self._look = None

    # ------------------------------------------------------------ what workers say

    def on_record(self, leash: Leash, record: Record) -> None:
        """Take a worker's word into its run; words without a run, or out of turn, are nonsense."""
        entry = self._by_worker.get(leash.worker)
        trial = entry.trial if entry is not None else None
        match record:
            case Ready(resets_peak=resets) if not leash.ready:
                leash.resets_peak = resets
                self._crew.ready(leash)
            case Finished(disturbed=True) if leash.asked:
                pass  # it was over its limit already, and may have come to its end only because we asked
            case Finished() if trial is not None and record.outcome in _SPEAKABLE:
                trial.finished = record
                leash.used = record.usage
                leash.catch_up()  # it was flushed before this was said, and after this it would be nobody's
                if record.outcome != Outcome.SUCCEEDED:
                    trial.look(leash.resident())
                worn = self._upkeep.after_run(leash)
                self._act(self._fleet.finished(leash.worker, record.run, last=record.last, worn=worn))
            case Progress(run=run) | Spend(run=run):
                # A thread that a handler left behind may still speak when its run is over.
                if entry is not None and trial is not None and run == entry.order.run:
                    hear(trial, record)
                    entry.heard()
                    if isinstance(record, Spend):
                        entry.spending.heard(record.number, trial.spent)
            case Grown() if leash.hunted:
                self._upkeep.grown(leash, record)
            case Measured():
                if trial is not None:
                    hear(trial, record)
            case _:
                self.on_nonsense(leash, f"{type(record).__name__} out of turn")

    def on_nonsense(self, leash: Leash, why: str) -> None:
        """Give a worker whose pipe is of no use a moment to die of what it is dying of, then kill it."""
        if leash.closed:
            return
        asyncio.get_running_loop().call_later(_PIPE_PATIENCE, self._kill_unheard, leash, why)

    def on_output(self, leash: Leash, lines: list[str], dropped: int) -> None:
        """Pass on what a worker has printed."""
        entry = self._by_worker.get(leash.worker)
        ticket = entry.order.ticket if entry is not None else "-"
        for line in lines:
            event(_output_log, "output", pid=leash.pid, ticket=ticket, line=line)
        if dropped:
            event(_output_log, "output.dropped", logging.WARNING, pid=leash.pid, lines=dropped)

    def _kill_unheard(self, leash: Leash, why: str) -> None:
        # One that was told to leave closes its pipe first and then tidies up; its time to leave is watched elsewhere.
        if not (leash.closed or leash.ended or self._fleet.leaving(leash.worker)):
            event(_log, "worker.unheard", logging.ERROR, pid=leash.pid, why=why)
            self._act(self._fleet.garbled(leash.worker))

    def _on_death(self, leash: Leash, death: Death, peak: int) -> None:
        entry = self._by_worker.get(leash.worker)
        if entry is None or entry.trial is None:
            return
        entry.death = death
        if leash.resets_peak or leash.runs == 1:
            entry.trial.peak = max(entry.trial.peak, peak)

    # ------------------------------------------------------------ what follows

    def _act(self, intentions: list[Intention]) -> None:
        """Carry out intentions in order; what follows from one comes after those that are waiting already."""
        self._todo.extend(intentions)
        if self._acting:
            return
        self._acting = True
        try:
            while self._todo:
                match self._todo.popleft():
                    case Assign(worker=worker, run=run):
                        self._assign(self._crew.leashes[worker], self._open[run])
                    case Disclaim(worker=worker, run=run):
                        self._crew.leashes[worker].send(Lost(run=run))
                    case End() as end:
                        self._end(end)
                    case other:
                        self._crew.carry_out(other)
        finally:
            self._acting = False

    def _assign(self, leash: Leash, entry: UnderWay) -> None:
        order, loop = entry.order, asyncio.get_running_loop()
        if leash.catch_up():  # it ended in the middle of nothing, so whoever comes next must not pay for it
            self._act(self._fleet.missed(leash.worker, order.run))
            return
        leash.output.forget()
        leash.runs += 1
        trial = Trial(
            order=order,
            build=leash.build,
            worker=leash.pid,
            started=time.time(),
            begun=time.monotonic(),
            revoked_with=entry.revoked_with,
            used_before=leash.used,
            hard=self._hard,
        )
        entry.begin(leash, trial)  # the deadline comes first: an order that stalls the sending itself is late, too
        self._by_worker[leash.worker] = entry
        if self._look is None:
            self._look = loop.call_later(_MEMORY_INTERVAL, self._look_at_memory)
        if entry.started is not None:
            entry.started(leash.pid)
        leash.send(briefing(order, self._hard))

    def _overdue(self, run: str, cause: Cause) -> None:
        """A limit has passed; what the worker has said meanwhile comes first, should we have been the slow ones."""
        entry = self._open.get(run)
        if entry is not None and entry.leash is not None:
            entry.leash.read()
        self._act(self._fleet.overdue(run, cause))

    def _look_at_memory(self) -> None:
        """Kill what is over its ceiling now; what was over it and has come down again is no business of ours.

        A run that has begun since the look before is left for the next one: most of those are over by then.
        """
        self._look, loop = None, asyncio.get_running_loop()
        since = time.monotonic() - _MEMORY_INTERVAL
        for entry in list(self._by_worker.values()):
            if entry.trial is None or entry.leash is None or entry.trial.begun > since:
                continue
            now = entry.leash.footprint(entry.order.memory_limit)
            entry.trial.look(now)
            if now > entry.order.memory_limit:
                self._overdue(entry.order.run, Cause.MEMORY)
        if self._by_worker:
            self._look = loop.call_later(_MEMORY_INTERVAL, self._look_at_memory)

    def _end(self, end: End) -> None:
        entry = self._open.pop(end.run)
        if entry.trial is None or entry.leash is None:
            taken = entry.revoked_with if end.cause is Cause.REVOKED else None
            report = unstarted(taken or Outcome.RELEASED, end.cause.value, now=time.time())
        else:
            del self._by_worker[entry.leash.worker]
            others = self._by_worker.values()
            entry.trial.alongside = (f"{other.order.kind} {other.order.ticket}" for other in others)
            entry.trial.stack = entry.leash.stack
            report = conclude(entry.trial, end.cause, entry.death, entry.leash.output.tail, time.monotonic())
        entry.end(report)


_SPEAKABLE: Final = frozenset(
    {
        Outcome.SUCCEEDED,
        Outcome.FAILED,
        Outcome.REJECTED,
        Outcome.MEMORY,
        Outcome.DEPENDENCY,
        Outcome.INADMISSIBLE,
    }
)
"""What a worker may say of itself; the rest is for others to judge."""
