"""The processes of a fleet: molds, and a leash for each worker. Carries out what `fleet` intends for them.

Owns the alarms for workers that do not start, do not leave or are not reaped. Sees the end of every worker with its own
eyes: a mold that does nothing any more may hide no death. What concerns runs is the pool's.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Final, assert_never

from consumer import spawn
from consumer.census import Census, WorkerSight
from consumer.evidence import Death, shown
from consumer.execution import ExecutorUnavailable
from consumer.fleet import Fleet
from consumer.forbearance import Forbearance
from consumer.intentions import EndMold, Intention, Kill, Retire, Spawn, StartMold
from consumer.leash import Leash, Listener
from consumer.memory import OomWatch
from consumer.molds import Molds
from consumer.pipe import Forked, ForkFailed, Loaded, Reaped, Record, Unloadable
from consumer.spawn import Blueprint
from consumer.upkeep import Upkeep
from consumer.usage import Usage
from gateway.contract.logs import event

_log: Final = logging.getLogger("consumer.crew")

_LEAVE_PATIENCE: Final = 5.0
"""Seconds for the handler's exit hooks and the interpreter's own end."""
_REAP_LOOKS: Final = 4
_REAP_INTERVAL: Final = 0.5
"""Seconds. A living mold tells of a death within milliseconds. Looks are counted, not one span of time, so that a
machine that stood still as a whole does not look like a mold that does."""
_STOP_PATIENCE: Final = 10.0
"""Seconds for a stop; whoever is still there then cannot be killed (state D)."""
_GIVE_UP: Final = 3
"""Failures in a row after which a start is given up; later ones are repeated for ever, with backoff."""


class Crew:
    """Processes as the pool sees them. `act` takes the intentions that follow from what processes do."""

    def __init__(
        self,
        *,
        blueprint: Blueprint,
        fleet: Fleet,
        upkeep: Upkeep,
        start_deadline: float,
        listener: Listener,
        act: Callable[[list[Intention]], None],
        died: Callable[[Leash, Death, int], None],
        hunt: int = 0,
    ) -> None:
        self._hunt = hunt
        self.build = ""
        self.leashes: dict[int, Leash] = {}
        self._molds = Molds(blueprint, hear=self._on_mold, gone=self._mold_gone)
        self._fleet = fleet
        self._upkeep = upkeep
        self._start_deadline = start_deadline
        self._listener = listener
        self._act = act
        self._died = died
        self._alarms: dict[int, asyncio.TimerHandle | Forbearance] = {}
        self._unreaped: dict[int, asyncio.TimerHandle] = {}
        self._oom = OomWatch()
        self._complete: asyncio.Future[None] | None = None
        self._gone = asyncio.Event()
        self._stopping = False

    # ------------------------------------------------------------ from start to stop

    @property
    def mold_pid(self) -> int:
        """The process id of the mold that forks now, or loads; 0 before there is one."""
        mold = self._molds.get(self._fleet.mold) or self._molds.get(self._molds.newest)
        return mold.pid if mold is not None else 0

    def census(self) -> Census:
        """Return what there is now; workers that are only planned are none yet."""
        phases, mold = self._fleet.phases(), self._molds.get(self._fleet.mold)
        return Census(
            workers=[
                WorkerSight(pid=leash.pid, phase=phases[leash.worker], runs=leash.runs, resident=leash.resident())
                for leash in self.leashes.values()
                if leash.worker in phases and leash.pid
            ],
            mold_pid=self.mold_pid,
            mold_resident=0 if mold is None else mold.memory[0],
            turnover=replace(self._upkeep.turnover(), in_progress=self._fleet.recycling),
        )

    def launch(self) -> None:
        """Start the first mold; may be called before any event loop runs."""
        self._molds.launch()

    async def start(self) -> None:
        """Wait until every slot has a worker; raises ExecutorUnavailable, with everything ended."""
        self._complete = asyncio.get_running_loop().create_future()
        self._start_mold()
        await self._complete

    async def stop(self) -> None:
        """Wait until every worker is gone, then end the mold. The fleet has been told to stop."""
        self._stopping = True
        for leash in self.leashes.values():
            if leash.pidfd is None:
                self._watch(leash.worker, _LEAVE_PATIENCE)  # asked for a moment ago; nobody waits for its start now
        self.check()
        try:
            async with asyncio.timeout(_STOP_PATIENCE):
                await self._gone.wait()
        except TimeoutError:
            self._molds.end_all()
            for leash in list(self.leashes.values()):
                event(_log, "worker.immortal", logging.ERROR, pid=leash.pid)
                self._bury(leash.worker, Death(), 0)
        self._molds.forget_start()
        for alarm in (*self._alarms.values(), *self._unreaped.values()):
            alarm.cancel()

    def carry_out(self, intention: StartMold | EndMold | Spawn | Kill | Retire) -> None:
        """Do one thing that the fleet wants done to a process."""
        match intention:
            case StartMold(after=after):
                self._molds.start_later(after, self._start_mold)
            case EndMold(mold=mold):
                if (elder := self._molds.get(mold)) is not None:
                    event(_log, "mold.replaced", pid=elder.pid, by=self.mold_pid)
                    self._molds.leave(mold)
            case Spawn(worker=worker, after=after):
                if after > 0:
                    self._alarms[worker] = self._loop.call_later(after, self._spawn, worker)
                else:
                    self._spawn(worker)
            case Kill(worker=worker, hangs=hangs):
                if (leash := self.leashes.get(worker)) is not None:
                    (leash.kill_when_asked if hangs else leash.kill)()
            case Retire(worker=worker):
                self.leashes[worker].dismiss()
                self._watch(worker, _LEAVE_PATIENCE)
            case _:
                assert_never(intention)

    def ready(self, leash: Leash) -> None:
        """The worker says that it can take orders; it gets them as soon as it can be killed, too."""
        leash.ready = True
        if leash.pidfd is None:
            return  # its birth is not announced yet; should its mold be frozen, the start's deadline finds out
        self._unwatch(leash.worker)
        self._upkeep.born(leash)
        self._act(self._fleet.started(leash.worker))
        self.check()

    def check(self) -> None:
        """See whether a start is complete, or a stop."""
        self._upkeep.counted(self._fleet.recycling)
        if self._complete is not None and not self._complete.done() and self._fleet.ready == self._fleet.slots:
            self._complete.set_result(None)
        if self._stopping and self._fleet.empty:
            self._molds.leave_all()
            if not self._molds:
                self._gone.set()

    # ------------------------------------------------------------ molds

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def _start_mold(self) -> None:
        if self._stopping or self._molds.is_loading:
            return
        try:
            self._molds.start()
        except OSError as error:
            event(_log, "mold.unstartable", logging.ERROR, error=error)
            self._fail(f"no mold could be started: {error}")
            self._act(self._fleet.mold_lost(self._molds.newest + 1))

    def _on_mold(self, number: int, record: Record, descriptors: list[int]) -> None:
        match record:
            case Loaded(build=build, threads=threads):
                self.build = build
                self._molds.loaded(number)
                event(_log, "mold.loaded", pid=self._molds[number].pid, build=build)
                if threads > 1:
                    event(_log, "mold.threads", logging.WARNING, threads=threads, why="a fork may inherit a held lock")
                self._upkeep.loaded(number, self._molds[number])
                self._act(self._fleet.mold_ready(number))
                self.check()  # with no slot at all, that was the whole start
            case Unloadable(message=message, traceback=trace):
                event(_log, "mold.unloadable", logging.ERROR, why=message)
                self._fail(f"{message}\n{trace}".rstrip())
            case Forked(worker=worker, pid=pid):
                if (leash := self.leashes.get(worker)) is None:
                    raise AssertionError(f"the mold forked worker {worker}, which nobody waits for")
                match descriptors:
                    case [pidfd, statm]:
                        leash.attach(pid, pidfd, statm, ended=self._on_end)
                    case _:
                        self._let_go(leash, pid, descriptors)
                if leash.ready:
                    self.ready(leash)
                if self._upkeep.is_worn(number, self._molds[number]) and number == self._fleet.mold:
                    self._act(self._fleet.mold_grown())
            case ForkFailed(worker=worker, message=message):
                event(_log, "worker.unforkable", logging.ERROR, why=message)
                self._bury(worker, Death(), 0)
            case Reaped(worker=worker, status=status, peak_rss=peak, usage=usage):
                self._bury(worker, self._death(status, usage), peak)
            case _:
                event(_log, "mold.garbled", logging.ERROR, record=type(record).__name__)

    def _mold_gone(self, number: int) -> None:
        """A mold has ended, or is to; its workers end with it, and each is waited for before its run is reported."""
        ended = self._molds.end(number)
        if ended is None:
            return
        pid, status, was_leaving = ended
        self._upkeep.ended(number)
        if not (self._stopping or was_leaving):
            event(_log, "mold.lost", logging.ERROR, pid=pid, status=status)
            self._fail(f"the process that loads the handler ended with status {status} before any worker was ready")
        # Whoever was seen to end before the mold did has ended by itself, and is not excused (P17).
        for leash in self._workers_of(number):
            if leash.ended:
                self._bury(leash.worker, self._death(leash.status), 0)
        self._act(self._fleet.mold_lost(number))
        for leash in self._workers_of(number):
            leash.orphaned = True
            if leash.pidfd is None:
                self._bury(leash.worker, Death(), 0)
        self.check()

    def _mold_frozen(self, number: int) -> None:
        """The mold is there and does nothing: it is stopped, or hangs in the kernel. It is replaced."""
        if (mold := self._molds.get(number)) is None:
            return
        event(_log, "mold.frozen", logging.ERROR, pid=mold.pid)
        for leash in self._workers_of(number):
            if leash.pid:
                spawn.kill_group(leash.pid)  # safe now: a mold that is frozen waits for nobody
        self._mold_gone(number)

    def _workers_of(self, mold: int) -> list[Leash]:
        return [leash for leash in self.leashes.values() if leash.mold == mold]

    def _fail(self, why: str) -> None:
        if self._complete is not None and not self._complete.done():
            self._complete.set_exception(ExecutorUnavailable(why))

    # ------------------------------------------------------------ workers

    def _spawn(self, worker: int) -> None:
        self._unwatch(worker)
        mold = self._molds.get(self._fleet.mold)
        if not self._fleet.expected(worker) or mold is None:
            return
        try:
            hunted = self._hunt > 0 and not any(map(self._is_hunted, self.leashes.values()))
            ends = mold.fork(worker, hunt=self._hunt if hunted else 0)
        except OSError as error:
            event(_log, "worker.unforkable", logging.ERROR, error=error)
            self._act(self._fleet.exited(worker))
            return
        self.leashes[worker] = Leash(
            worker, ends, self._listener, mold=self._fleet.mold, build=self.build, hunted=hunted
        )
        self._watch(worker, self._start_deadline)
        self._act(self._fleet.spawned(worker, exempt=hunted))
        self._upkeep.counted(self._fleet.recycling)

    @staticmethod
    def _let_go(leash: Leash, pid: int, descriptors: list[int]) -> None:
        """There was no room for all descriptors that came with a worker's birth: it cannot be held, so it is to leave.

        It gets no run without a pidfd; the start's deadline finds one that does not leave.
        """
        for descriptor in descriptors:
            os.close(descriptor)
        leash.pid = pid
        leash.dismiss()
        event(
            _log, "worker.unheld", logging.ERROR, pid=pid, why="descriptors have run out: raise the limit on open files"
        )

    def _is_hunted(self, leash: Leash) -> bool:
        return leash.hunted and not (leash.closed or self._fleet.leaving(leash.worker))

    def _watch(self, worker: int, patience: float) -> None:
        self._unwatch(worker)
        self._alarms[worker] = Forbearance(patience, lambda: self._stuck(worker), listen=lambda: self._listen(worker))

    def _unwatch(self, worker: int) -> None:
        if (alarm := self._alarms.pop(worker, None)) is not None:
            alarm.cancel()

    def _listen(self, worker: int) -> None:
        """Take in what the worker, or its mold, has said of it while we may have been the slow ones."""
        if (leash := self.leashes.get(worker)) is not None:
            self._molds.hear(leash.mold)
            leash.read()

    def _stuck(self, worker: int) -> None:
        self._unwatch(worker)
        leash = self.leashes.get(worker)
        if leash is None or leash.ended:
            return
        event(_log, "worker.stuck", logging.WARNING, worker=worker, pid=leash.pid)
        if leash.pidfd is None:
            self._mold_frozen(leash.mold)  # it has not even forked: whatever holds it, it is of no use any more
        else:
            self._act(self._fleet.stuck(worker))

    def _on_end(self, leash: Leash) -> None:
        """A worker's process is over. Its mold tells how, unless that is gone, or frozen."""
        # A mold that ended first can be seen to have ended, and excuses its workers. Its socket alone would not tell: a
        # worker that hangs in the middle of its birth holds a copy.
        self._molds.hear(leash.mold)
        mold = self._molds.get(leash.mold)
        if mold is not None and mold.ended:
            self._mold_gone(leash.mold)
        if leash.closed:
            return
        if leash.orphaned:
            assert leash.pidfd is not None  # noqa: S101 - it has just been seen
            spawn.reap_orphan(leash.pidfd)
            self._bury(leash.worker, Death(), 0)
            return
        leash.ended = True
        leash.status = spawn.exit_status(leash.pid, parent=self._molds[leash.mold].pid)
        self._await_reaping(leash, _REAP_LOOKS)

    def _await_reaping(self, leash: Leash, looks: int) -> None:
        if looks == 0:
            self._mold_frozen(leash.mold)
        else:
            self._unreaped[leash.worker] = self._loop.call_later(_REAP_INTERVAL, self._await_reaping, leash, looks - 1)

    def _death(self, status: int | None, usage: Usage | None = None) -> Death:
        killed = status is not None and os.WIFSIGNALED(status)
        return Death(status=status, oom=killed and self._oom.rose(), usage=usage)

    def _bury(self, worker: int, death: Death, peak: int) -> None:
        self._unwatch(worker)
        if (reaping := self._unreaped.pop(worker, None)) is not None:
            reaping.cancel()
        if (leash := self.leashes.get(worker)) is not None:
            leash.close()
            event(_log, "worker.exited", pid=leash.pid, status=shown(death), runs=leash.runs)
            self._upkeep.gone(leash, self._fleet.parting(worker), death)
            self._died(leash, death, peak)
        self._act(self._fleet.exited(worker))
        self.leashes.pop(worker, None)
        if self._fleet.failures >= _GIVE_UP and self._fleet.ready == 0:
            tail = leash.output.tail.strip() if leash is not None else ""
            self._fail(f"{self._fleet.failures} workers in a row died before they were ready. {tail}".rstrip())
        self.check()
