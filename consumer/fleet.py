"""Who sits in which slot, what it runs, and what has to happen next: messages in, intentions out.

Pure: no system calls, no clock, no pipes. Owns the promises of the fleet: one run at a time on a worker; one ending for
every run, whatever dies in which order; a worker that is to be recycled keeps its place until another one stands ready,
and a worker on its way out is given nothing any more. A run's ending is told only when its worker can do no more harm:
it has said that it finished, or it is dead.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from consumer.intentions import (
    Assign,
    Cause,
    Disclaim,
    End,
    EndMold,
    Intention,
    Kill,
    Parting,
    Phase,
    Retire,
    Spawn,
    StartMold,
)
from consumer.recycle import allowance

_HANGING: Final = frozenset({Cause.DEADLINE, Cause.SILENT})
_BACKOFF_BASE: Final = 0.1
_BACKOFF_CAP: Final = 5.0
_SUCCESSOR_PAUSE: Final = 60.0
"""Seconds until the next try when a mold's successor could not be loaded: the old one still serves."""


@dataclass(slots=True, kw_only=True)
class _Worker:
    phase: Phase = Phase.PLANNED
    run: str | None = None
    runs: int = 0
    killed_for: Cause | None = None
    revoked: bool = False
    mold: int = 0
    """The one that it was forked from; 0 while it is only planned."""
    worn: Parting | None = None
    """Why it is to be recycled, or left."""
    exempt: bool = False
    """Never recycled: somebody watches how it grows."""
    late: bool = False
    """It was not ready in time; what it says from now on is too late."""


@dataclass(slots=True)
class Fleet:
    """The registry of slots and workers; every method takes one message and yields the intentions that follow.

    A `fresh` fleet gives every run a worker that has run nothing before (the isolation lane). There are never more
    workers than slots, and an allowance for those that are being recycled. Consume what a method yields before calling
    the next.
    """

    slots: int
    fresh: bool = False
    failures: int = 0
    """Workers that died without having had a run, in a row."""
    mold: int = 0
    """The mold that workers are forked from; 0 while there is none."""
    _newest: int = 0
    """The number of the last mold that was ready; later ones have greater numbers."""
    _elders: set[int] = field(default_factory=set)
    """Molds that have been replaced and still have workers."""
    _successor: bool = False
    """A mold has been asked for, to replace one that serves."""
    _mold_failures: int = 0
    _stopping: bool = False
    _next: int = 1
    _workers: dict[int, _Worker] = field(default_factory=dict)
    _waiting: deque[str] = field(default_factory=deque)
    _running: dict[str, int] = field(default_factory=dict)

    # ------------------------------------------------------------ what can be asked

    @property
    def ready(self) -> int:
        """Workers that have a run or could take one; never more than slots."""
        return sum(1 for worker in self._workers.values() if worker.phase in (Phase.IDLE, Phase.BUSY))

    @property
    def recycling(self) -> int:
        """Workers beyond the slots: they will take the place of another one, or have given theirs up."""
        return max(0, len(self._workers) - self.slots)

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

    def parting(self, worker: int) -> Cause | Parting:
        """Return what a worker that has just died has died of, or left for; ask before it is reported as `exited`."""
        one = self._workers[worker]
        if one.killed_for is not None:
            return one.killed_for
        if one.phase in (Phase.PLANNED, Phase.STARTING):
            return Parting.UNREADY
        return one.worn if one.phase is Phase.LEAVING and one.worn is not None else Cause.DIED

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

    def finished(self, worker: int, run: str, *, last: bool = False, worn: Parting | None = None) -> list[Intention]:
        """The worker says that its run is over; `last` says that it wants no other, `worn` that it is to be recycled.

        A worn worker goes on until another one is ready to take its place.
        """
        one = self._workers.get(worker)
        if one is None or one.run is None or one.run != run:
            return self.garbled(worker)
        ended = self._end(one, worker, run, Cause.FINISHED)
        if one.killed_for is not None:
            one.phase = Phase.LEAVING  # the run was quicker than the kill, which is on its way all the same
            return [ended]
        if last or self.fresh or self._stopping:
            return [ended, self._retire(worker, Parting.STOPPED if self._stopping else Parting.USED_UP), *self._fill()]
        one.phase = Phase.IDLE
        if worn is not None and one.worn is None and not one.exempt:
            one.worn = worn
        if one.worn is None:
            return [ended, *self._dispatch()]
        return [ended, *self._settle()]

    def missed(self, worker: int, run: str) -> list[Intention]:
        """The worker was dead before it could be told of the run that it was to have: that waits for another one."""
        one = self._workers.get(worker)
        if one is None or one.run != run:
            return []
        one.phase, one.run, one.runs = Phase.LEAVING, None, one.runs - 1
        del self._running[run]
        if self._stopping or one.revoked:
            return [End(run=run, worker=None, cause=Cause.STOPPED if self._stopping else Cause.REVOKED)]
        self._waiting.appendleft(run)
        return [*self._swap(), *self._dispatch()]  # it is replaced when it has `exited`

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

    def spawned(self, worker: int, *, exempt: bool = False) -> list[Intention]:
        """The mold was asked for the worker, which is not to be recycled when it is `exempt`."""
        one = self._workers[worker]
        one.phase, one.mold, one.exempt = Phase.STARTING, self.mold, exempt
        return []

    def started(self, worker: int) -> list[Intention]:
        """The worker says that it is ready."""
        one = self._workers.get(worker)
        if one is None or one.phase is Phase.LEAVING or one.late or one.killed_for is not None:
            return []
        if one.phase is not Phase.STARTING:
            return self.garbled(worker)
        self._mold_failures = 0
        one.phase = Phase.STANDBY
        return self._settle()

    def stuck(self, worker: int) -> list[Intention]:
        """The worker's time to get ready, or to leave, is over."""
        one = self._workers.get(worker)
        if one is None or one.phase not in (Phase.STARTING, Phase.LEAVING):
            return []
        one.late = True
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
            done.append(self._end(one, worker, one.run, one.killed_for or Cause.DIED))
        # One that dies young without ever having had a run would do so again, and again.
        left = one.phase is Phase.LEAVING and one.worn is not None
        young = one.runs == 0 and not left and one.killed_for is not Cause.MOLD_LOST
        self.failures += young
        return [*done, *self._settle(_backoff(self.failures) if young else 0.0), *self._end_elders()]

    # ------------------------------------------------------------ messages about molds, and the end

    def mold_ready(self, mold: int) -> list[Intention]:
        """A mold has loaded the handler and can fork; workers of the one before it are recycled, a share at a time."""
        if self.mold:
            self._elders.add(self.mold)
        self.mold = self._newest = mold
        self._successor = False
        for one in self._workers.values():
            if one.mold not in (0, mold) and not one.exempt:
                one.worn = one.worn or Parting.MOLD
        return [*self._settle(), *self._end_elders()]

    def mold_grown(self) -> list[Intention]:
        """The mold has grown so much that another one is to take its place; it serves until that is ready."""
        if self._stopping or self._successor or not self.mold or self._elders:
            return []
        self._successor = True
        return [StartMold(after=0.0)]

    def mold_lost(self, mold: int) -> list[Intention]:
        """A mold is gone: its workers go with it, blaming nobody; those that had not been forked never were.

        Each worker that was forked must still be reported as `exited`.
        """
        self._elders.discard(mold)
        kills = [
            kill
            for number, one in self._workers.items()
            if one.mold == mold
            for kill in self._kill(number, Cause.MOLD_LOST)
        ]
        if self.mold and mold > self._newest:
            return [] if self._stopping else [StartMold(after=_SUCCESSOR_PAUSE)]
        if mold <= self._newest and mold != self.mold:
            return kills  # it had been replaced already
        self.mold, self._successor = 0, False
        self._mold_failures += 1
        for number in [n for n, worker in self._workers.items() if worker.phase is Phase.PLANNED]:
            del self._workers[number]
        if self._stopping:
            return kills
        return [*kills, StartMold(after=0.0 if self._mold_failures == 1 else _backoff(self._mold_failures))]

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
                case Phase.STANDBY | Phase.IDLE:
                    done.append(self._retire(number, Parting.STOPPED))
        return done

    # ------------------------------------------------------------

    def _settle(self, after: float = 0.0) -> list[Intention]:
        """Let worn workers go for those that stand ready, give out what waits, and ask for those that are missing."""
        return [*self._swap(), *self._dispatch(), *self._fill(after)]

    def _swap(self) -> list[Intention]:
        done: list[Intention] = []
        worn = [n for n, one in self._workers.items() if one.phase is Phase.IDLE and one.worn is not None]
        for one in self._workers.values():
            if one.phase is not Phase.STANDBY or self._stopping:
                continue
            if self.ready == self.slots:
                if not worn:
                    break
                done.append(self._retire(worn.pop(), None))
            one.phase = Phase.IDLE
        return done

    def _dispatch(self) -> list[Intention]:
        done: list[Intention] = []
        if not self._waiting:
            return done
        idle = [(number, one) for number, one in self._workers.items() if one.phase is Phase.IDLE]
        for number, one in sorted(idle, key=lambda item: item[1].worn is not None):
            if not self._waiting:
                break
            one.phase, one.run, one.revoked = Phase.BUSY, self._waiting.popleft(), False
            one.runs += 1
            self._running[one.run] = number
            done.append(Assign(worker=number, run=one.run))
        return done

    def _fill(self, after: float = 0.0) -> list[Intention]:
        if not self.mold or self._stopping:
            return []
        staying = sum(1 for one in self._workers.values() if one.phase is not Phase.LEAVING and one.worn is None)
        room = self.slots + (0 if self.fresh else allowance(self.slots)) - len(self._workers)
        done: list[Intention] = []
        for _ in range(min(self.slots - staying, room)):
            self._workers[self._next] = _Worker()
            done.append(Spawn(worker=self._next, after=after))
            self._next += 1
        return done

    def _end_elders(self) -> list[Intention]:
        done = self._elders - {one.mold for one in self._workers.values()}
        self._elders -= done
        return [EndMold(mold=mold) for mold in sorted(done)]

    def _retire(self, worker: int, why: Parting | None) -> Retire:
        one = self._workers[worker]
        one.phase, one.worn = Phase.LEAVING, why or one.worn
        return Retire(worker=worker)

    def _kill(self, worker: int, cause: Cause) -> list[Intention]:
        one = self._workers[worker]
        if one.killed_for is None:
            one.killed_for = cause  # the first cause is the true one
        if one.run is None and one.phase is not Phase.STARTING:
            one.phase = Phase.LEAVING
        return [Kill(worker=worker, hangs=cause in _HANGING)]

    def _end(self, one: _Worker, worker: int, run: str, cause: Cause) -> End:
        one.run = None
        del self._running[run]
        self.failures = 0
        return End(run=run, worker=worker, cause=cause)


def _backoff(failures: int) -> float:
    return float(min(_BACKOFF_CAP, _BACKOFF_BASE * 2 ** min(failures - 1, 10))) if failures > 0 else 0.0
