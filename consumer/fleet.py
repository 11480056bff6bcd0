"""Who sits in which slot, what it runs, and what has to happen next: messages in, intentions out.

Pure: no system calls, no clock, no pipes. Owns the two promises of the fleet: one run at a time on a worker, and one
ending for every run, whatever dies in which order. A run's ending is told only when its worker can do no more harm:
it has said that it finished, or it is dead.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

_BACKOFF_BASE: Final = 0.1
_BACKOFF_CAP: Final = 5.0


class Cause(StrEnum):
    """How a run came to its end."""

    FINISHED = "finished"
    """The worker said so itself."""
    DIED = "died"
    """The worker was gone, and nobody here had killed it."""
    DEADLINE = "deadline"
    SILENT = "silent"
    """It had not said anything for longer than its kind may."""
    MEMORY = "memory"
    GARBLED = "garbled"
    """The worker wrote what is no record, or closed its pipe and lived on."""
    REVOKED = "revoked"
    """The claim was taken away and the grace is over, or it had not begun."""
    STOPPED = "stopped"
    MOLD_LOST = "mold_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartMold:
    """Start a mold, `after` seconds from now."""

    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """Ask the mold for a worker, `after` seconds from now, if it is still `expected` then."""

    worker: int
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """Arm the run's deadline, then send it to the worker."""

    worker: int
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclaim:
    """Tell the worker that its run's claim is gone."""

    worker: int
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Kill the worker: now, or once it has had the chance to write down where it `hangs`."""

    worker: int
    hangs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Retire:
    """Let the worker end by itself: it has no run, and is killed only if it takes too long."""

    worker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The run is over; `worker` is None when it never had one."""

    run: str
    worker: int | None
    cause: Cause


_HANGING: Final = frozenset({Cause.DEADLINE, Cause.SILENT})

Intention = StartMold | Spawn | Assign | Disclaim | Kill | Retire | End


class Phase(StrEnum):
    """Where a worker stands between its planning and its death."""

    PLANNED = "planned"
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    LEAVING = "leaving"


@dataclass(slots=True, kw_only=True)
class _Worker:
    phase: Phase = Phase.PLANNED
    run: str | None = None
    runs: int = 0
    killed_for: Cause | None = None
    revoked: bool = False


@dataclass(slots=True)
class Fleet:
    """The registry of slots and workers; every method takes one message and yields the intentions that follow.

    A `fresh` fleet gives every run a worker that has run nothing before (the isolation lane). Consume what a method
    yields before calling the next.
    """

    slots: int
    fresh: bool = False
    failures: int = 0
    """Workers that died before they were ready, in a row."""
    _mold: bool = False
    _mold_failures: int = 0
    _stopping: bool = False
    _next: int = 1
    _workers: dict[int, _Worker] = field(default_factory=dict)
    _waiting: deque[str] = field(default_factory=deque)
    _running: dict[str, int] = field(default_factory=dict)

    # ------------------------------------------------------------ what can be asked

    @property
    def ready(self) -> int:
        """Workers that have a run or could take one."""
        return sum(1 for worker in self._workers.values() if worker.phase in (Phase.IDLE, Phase.BUSY))

    @property
    def empty(self) -> bool:
        """No worker is left, not even a planned one."""
        return not self._workers

    def expected(self, worker: int) -> bool:
        """Whether a worker that was planned is still to be spawned."""
        return worker in self._workers and self._workers[worker].phase is Phase.PLANNED

    def leaving(self, worker: int) -> bool:
        """Whether the worker is on its way out: it was told to go, or is killed, and need not be heard any more."""
        return worker in self._workers and self._workers[worker].phase is Phase.LEAVING

    def busy(self) -> Iterator[tuple[int, str]]:
        """Yield each worker that has a run, and the run."""
        return ((number, run) for run, number in self._running.items())

    def phases(self) -> dict[int, Phase]:
        """Return where every worker stands."""
        return {number: worker.phase for number, worker in self._workers.items()}

    # ------------------------------------------------------------ messages about runs

    def ordered(self, run: str) -> list[Intention]:
        """A run is wanted; it waits for a worker if it must."""
        if run in self._running or run in self._waiting:
            raise ValueError(f"run {run} was ordered before")
        if self._stopping:
            return [End(run=run, worker=None, cause=Cause.STOPPED)]
        self._waiting.append(run)
        return self._dispatch()

    def finished(self, worker: int, run: str, *, last: bool = False) -> list[Intention]:
        """The worker says that its run is over; `last` says that it wants no other."""
        one = self._workers.get(worker)
        if one is None or one.run is None or one.run != run:
            return self.garbled(worker)
        ended = self._end(one, worker, Cause.FINISHED)
        if one.killed_for is not None:
            one.phase = Phase.LEAVING  # the run was quicker than the kill, which is on its way all the same
            return [ended]
        if last or self.fresh or self._stopping or not self._mold:
            one.phase = Phase.LEAVING
            return [ended, Retire(worker=worker)]
        one.phase = Phase.IDLE
        return [ended, *self._dispatch()]

    def revoked(self, run: str) -> list[Intention]:
        """The claim to a run is gone: it ends at once if nobody has it, else its worker is told."""
        if run in self._waiting:
            self._waiting.remove(run)
            return [End(run=run, worker=None, cause=Cause.REVOKED)]
        number = self._running.get(run)
        if number is None:
            return []
        self._workers[number].revoked = True
        return [Disclaim(worker=number, run=run)]

    def overdue(self, run: str, cause: Cause) -> list[Intention]:
        """A limit of a run has been passed; what has been revoked is not blamed for being slow."""
        number = self._running.get(run)
        if number is None:
            return []
        if cause in _HANGING and self._workers[number].revoked:
            cause = Cause.REVOKED
        return self._kill(number, cause)

    # ------------------------------------------------------------ messages about workers

    def spawned(self, worker: int) -> list[Intention]:
        """The mold was asked for the worker."""
        self._workers[worker].phase = Phase.STARTING
        return []

    def started(self, worker: int) -> list[Intention]:
        """The worker says that it is ready."""
        one = self._workers.get(worker)
        if one is None or one.phase is Phase.LEAVING:
            return []
        if one.phase is not Phase.STARTING:
            return self.garbled(worker)
        self.failures = self._mold_failures = 0
        one.phase = Phase.IDLE
        return self._dispatch()

    def stuck(self, worker: int) -> list[Intention]:
        """The worker's time to get ready, or to leave, is over."""
        one = self._workers.get(worker)
        if one is None or one.phase not in (Phase.STARTING, Phase.LEAVING):
            return []
        return [Kill(worker=worker)]

    def garbled(self, worker: int) -> list[Intention]:
        """The worker's pipe carries nonsense, or nothing more."""
        return self._kill(worker, Cause.GARBLED) if worker in self._workers else []

    def exited(self, worker: int) -> list[Intention]:
        """The worker is dead and everything that it had written has been read; or it could not be spawned at all."""
        one = self._workers.pop(worker, None)
        if one is None:
            return []
        done: list[Intention] = []
        if one.run is not None:
            done.append(self._end(one, worker, one.killed_for or Cause.DIED))
        # One that dies young without ever having had a run would do so again, and again.
        young = one.phase in (Phase.PLANNED, Phase.STARTING) or (one.phase is Phase.IDLE and one.runs == 0)
        young = young and one.killed_for is not Cause.MOLD_LOST
        self.failures += young
        return [*done, *self._fill(_backoff(self.failures) if young else 0.0)]

    # ------------------------------------------------------------ messages about the mold, and the end

    def mold_ready(self) -> list[Intention]:
        """The mold has loaded the handler and can fork."""
        self._mold = True
        return self._fill(0.0)

    def mold_lost(self) -> list[Intention]:
        """The mold is gone: its workers go with it, blaming nobody; those that had not been forked never were.

        Each worker that was forked must still be reported as `exited`.
        """
        self._mold = False
        self._mold_failures += 1
        for number in [n for n, worker in self._workers.items() if worker.phase is Phase.PLANNED]:
            del self._workers[number]
        kills = [kill for number in list(self._workers) for kill in self._kill(number, Cause.MOLD_LOST)]
        again = (
            []
            if self._stopping
            else [StartMold(after=0.0 if self._mold_failures == 1 else _backoff(self._mold_failures))]
        )
        return [*kills, *again]

    def stop(self) -> list[Intention]:
        """Take no more runs and end every worker."""
        self._stopping = True
        done: list[Intention] = [End(run=run, worker=None, cause=Cause.STOPPED) for run in self._waiting]
        self._waiting.clear()
        for number, one in list(self._workers.items()):
            match one.phase:
                case Phase.PLANNED:
                    del self._workers[number]
                case Phase.STARTING | Phase.BUSY:
                    done += self._kill(number, Cause.STOPPED)
                case Phase.IDLE:
                    one.phase = Phase.LEAVING
                    done.append(Retire(worker=number))
                case Phase.LEAVING:
                    pass
        return done

    # ------------------------------------------------------------

    def _dispatch(self) -> list[Intention]:
        done: list[Intention] = []
        for number, one in self._workers.items():
            if not self._waiting:
                break
            if one.phase is Phase.IDLE:
                one.phase, one.run, one.revoked = Phase.BUSY, self._waiting.popleft(), False
                one.runs += 1
                self._running[one.run] = number
                done.append(Assign(worker=number, run=one.run))
        return done

    def _fill(self, after: float) -> list[Intention]:
        done: list[Intention] = []
        while self._mold and not self._stopping and len(self._workers) < self.slots:
            self._workers[self._next] = _Worker()
            done.append(Spawn(worker=self._next, after=after))
            self._next += 1
        return done

    def _kill(self, worker: int, cause: Cause) -> list[Intention]:
        one = self._workers[worker]
        if one.killed_for is None:
            one.killed_for = cause  # the first cause is the true one
        if one.run is None and one.phase is not Phase.STARTING:
            one.phase = Phase.LEAVING
        return [Kill(worker=worker, hangs=cause in _HANGING)]

    def _end(self, one: _Worker, worker: int, cause: Cause) -> End:
        if one.run is None:
            raise AssertionError(f"worker {worker} has no run to end")
        run, one.run = one.run, None
        del self._running[run]
        return End(run=run, worker=worker, cause=cause)


def _backoff(failures: int) -> float:
    return float(min(_BACKOFF_CAP, _BACKOFF_BASE * 2 ** min(failures - 1, 10))) if failures > 0 else 0.0
