"""The processes of a fleet: one mold, and a leash for each worker. Carries out what `fleet` intends for them.

Owns the mold's control socket and the alarms for workers that do not start, do not leave or are not reaped. Sees the
end of every worker with its own eyes: a mold that does nothing any more may hide no death. What concerns runs is the
pool's.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Final, assert_never

from consumer import spawn
from consumer.evidence import Death, shown
from consumer.execution import ExecutorUnavailable
from consumer.fleet import Fleet, Intention, Kill, Retire, Spawn, StartMold
from consumer.forbearance import Forbearance
from consumer.leash import Leash, Listener
from consumer.memory import OomWatch
from consumer.pipe import Forked, ForkFailed, Garbled, Loaded, Reaped, Record, Unloadable
from consumer.spawn import Blueprint, Mold
from consumer.usage import Usage
from gateway.contract.logs import event

_log: Final = logging.getLogger("consumer.crew")

_LOAD_DEADLINE: Final = 120.0
"""Seconds; handlers import large libraries."""
_LEAVE_PATIENCE: Final = 2.0
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
        start_deadline: float,
        listener: Listener,
        act: Callable[[list[Intention]], None],
        died: Callable[[Leash, Death, int], None],
    ) -> None:
        self.build = ""
        self.mold_pid = 0
        self.leashes: dict[int, Leash] = {}
        self._blueprint = blueprint
        self._fleet = fleet
        self._start_deadline = start_deadline
        self._listener = listener
        self._act = act
        self._died = died
        self._mold: Mold | None = None
        self._alarms: dict[int, asyncio.TimerHandle | Forbearance] = {}
        self._unreaped: dict[int, asyncio.TimerHandle] = {}
        self._mold_alarm: asyncio.TimerHandle | Forbearance | None = None
        self._oom = OomWatch()
        self._complete: asyncio.Future[None] | None = None
        self._gone = asyncio.Event()
        self._stopping = False
        self._leaving = False

    # ------------------------------------------------------------ from start to stop

    def launch(self) -> None:
        """Start the first mold; may be called before any event loop runs."""
        if self._mold is None:
            self._mold = Mold.start(self._blueprint)
            self.mold_pid = self._mold.pid

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
            self._mold_gone()
            for leash in list(self.leashes.values()):
                event(_log, "worker.immortal", logging.ERROR, pid=leash.pid)
                self._bury(leash.worker, Death(), 0)
        self._quiet()
        for alarm in (*self._alarms.values(), *self._unreaped.values()):
            alarm.cancel()

    def carry_out(self, intention: StartMold | Spawn | Kill | Retire) -> None:
        """Do one thing that the fleet wants done to a process."""
        match intention:
            case StartMold(after=after):
                self._quiet()
                self._mold_alarm = self._loop.call_later(after, self._start_mold)
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
        self._act(self._fleet.started(leash.worker))
        self.check()

    def check(self) -> None:
        """See whether a start is complete, or a stop."""
        if self._complete is not None and not self._complete.done() and self._fleet.ready == self._fleet.slots:
            self._complete.set_result(None)
        if self._stopping and self._fleet.empty:
            if self._mold is None:
                self._gone.set()
            elif not self._leaving:
                self._leaving = True
                self._mold.leave()
                self._give_mold(_LEAVE_PATIENCE)

    # ------------------------------------------------------------ the mold

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def _give_mold(self, seconds: float) -> None:
        self._quiet()
        self._mold_alarm = Forbearance(seconds, self._mold_gone, listen=self._hear_mold)

    def _quiet(self) -> None:
        if self._mold_alarm is not None:
            self._mold_alarm.cancel()
            self._mold_alarm = None

    def _start_mold(self) -> None:
        if self._stopping:
            return
        try:
            self.launch()
        except OSError as error:
            event(_log, "mold.unstartable", logging.ERROR, error=error)
            self._fail(f"no mold could be started: {error}")
            self._act(self._fleet.mold_lost())
            return
        assert self._mold is not None  # noqa: S101 - launched
        self._loop.add_reader(self._mold.control, self._hear_mold)
        self._give_mold(_LOAD_DEADLINE)

    def _hear_mold(self) -> None:
        while self._mold is not None:
            try:
                heard = self._mold.receive()
            except BlockingIOError:
                return
            except (OSError, Garbled) as error:
                event(_log, "mold.garbled", logging.ERROR, error=error)
                heard = None
            if heard is None:
                self._mold_gone()
                return
            self._on_mold(*heard)

    def _on_mold(self, record: Record, descriptors: list[int]) -> None:
        match record:
            case Loaded(build=build, threads=threads):
                self.build = build
                self._quiet()
                event(_log, "mold.loaded", pid=self.mold_pid, build=build)
                if threads > 1:
                    event(_log, "mold.threads", logging.WARNING, threads=threads, why="a fork may inherit a held lock")
                self._act(self._fleet.mold_ready())
                self.check()  # with no slot at all, that was the whole start
            case Unloadable(message=message, traceback=trace):
                event(_log, "mold.unloadable", logging.ERROR, why=message)
                self._fail(f"{message}\n{trace}".rstrip())
            case Forked(worker=worker, pid=pid):
                if (leash := self.leashes.get(worker)) is None:
                    raise AssertionError(f"the mold forked worker {worker}, which nobody waits for")
                leash.attach(pid, *descriptors, ended=self._on_end)
                if leash.ready:
                    self.ready(leash)
            case ForkFailed(worker=worker, message=message):
                event(_log, "worker.unforkable", logging.ERROR, why=message)
                self._bury(worker, Death(), 0)
            case Reaped(worker=worker, status=status, peak_rss=peak, usage=usage):
                self._bury(worker, self._death(status, Usage.unpacked(usage)), peak)
            case _:
                event(_log, "mold.garbled", logging.ERROR, record=type(record).__name__)

    def _mold_gone(self) -> None:
        """The mold has ended, or is to; its workers end with it, and each is waited for before its run is reported."""
        mold, self._mold = self._mold, None
        if mold is None:
            return
        self._loop.remove_reader(mold.control)
        self._quiet()
        status = mold.kill()
        if not self._stopping:
            event(_log, "mold.lost", logging.ERROR, pid=mold.pid, status=status)
            self._fail(f"the process that loads the handler ended with status {status} before any worker was ready")
        # Whoever was seen to end before the mold did has ended by itself, and is not excused (P17).
        for leash in [leash for leash in self.leashes.values() if leash.ended]:
            self._bury(leash.worker, self._death(leash.status), 0)
        self._act(self._fleet.mold_lost())
        for leash in list(self.leashes.values()):
            leash.orphaned = True
            if leash.pidfd is None:
                self._bury(leash.worker, Death(), 0)
        self.check()

    def _mold_frozen(self) -> None:
        """The mold is there and does nothing: it is stopped, or hangs in the kernel. It is replaced."""
        event(_log, "mold.frozen", logging.ERROR, pid=self.mold_pid)
        if self._mold is not None:
            for leash in self.leashes.values():
                if leash.pid:
                    spawn.kill_group(leash.pid)  # safe now: a mold that is frozen waits for nobody
        self._mold_gone()

    def _fail(self, why: str) -> None:
        if self._complete is not None and not self._complete.done():
            self._complete.set_exception(ExecutorUnavailable(why))

    # ------------------------------------------------------------ workers

    def _spawn(self, worker: int) -> None:
        self._unwatch(worker)
        if not self._fleet.expected(worker) or self._mold is None:
            return
        try:
            ends = self._mold.fork(worker)
        except OSError as error:
            event(_log, "worker.unforkable", logging.ERROR, error=error)
            self._act(self._fleet.exited(worker))
            return
        self.leashes[worker] = Leash(worker, ends, self._listener)
        self._watch(worker, self._start_deadline)
        self._act(self._fleet.spawned(worker))

    def _watch(self, worker: int, patience: float) -> None:
        self._unwatch(worker)
        self._alarms[worker] = Forbearance(patience, lambda: self._stuck(worker), listen=lambda: self._listen(worker))

    def _unwatch(self, worker: int) -> None:
        if (alarm := self._alarms.pop(worker, None)) is not None:
            alarm.cancel()

    def _listen(self, worker: int) -> None:
        """Take in what the worker, or its mold, has said of it while we may have been the slow ones."""
        self._hear_mold()
        if (leash := self.leashes.get(worker)) is not None:
            leash.read()

    def _stuck(self, worker: int) -> None:
        self._unwatch(worker)
        leash = self.leashes.get(worker)
        if leash is None or leash.ended:
            return
        event(_log, "worker.stuck", logging.WARNING, worker=worker, pid=leash.pid)
        if leash.pidfd is None:
            self._mold_frozen()  # it has not even forked: whatever holds it, it is of no use any more
        else:
            self._act(self._fleet.stuck(worker))

    def _on_end(self, leash: Leash) -> None:
        """A worker's process is over. Its mold tells how, unless that is gone, or frozen."""
        # A mold that ended first can be seen to have ended, and excuses its workers. Its socket alone would not tell: a
        # worker that hangs in the middle of its birth holds a copy.
        self._hear_mold()
        if self._mold is not None and self._mold.ended:
            self._mold_gone()
        if leash.closed:
            return
        if leash.orphaned:
            assert leash.pidfd is not None  # noqa: S101 - it has just been seen
            spawn.reap_orphan(leash.pidfd)
            self._bury(leash.worker, Death(), 0)
            return
        leash.ended = True
        leash.status = spawn.exit_status(leash.pid, parent=self.mold_pid)
        self._await_reaping(leash.worker, _REAP_LOOKS)

    def _await_reaping(self, worker: int, looks: int) -> None:
        if looks == 0:
            self._mold_frozen()
        else:
            self._unreaped[worker] = self._loop.call_later(_REAP_INTERVAL, self._await_reaping, worker, looks - 1)

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
            self._died(leash, death, peak)
        self._act(self._fleet.exited(worker))
        self.leashes.pop(worker, None)
        if self._fleet.failures >= _GIVE_UP and self._fleet.ready == 0:
            tail = leash.output.tail.strip() if leash is not None else ""
            self._fail(f"{self._fleet.failures} workers in a row died before they were ready. {tail}".rstrip())
        self.check()
