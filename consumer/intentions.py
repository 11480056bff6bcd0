"""The words between the fleet and its shell: what is to be done, why a run ended, where a worker stands.

Pure values. Owns their meaning, decides nothing.
"""

from dataclasses import dataclass
from enum import StrEnum


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


class Parting(StrEnum):
    """Why a worker has left, where no run was concerned."""

    RUNS = "recycle_runs"
    """It has had as many runs as it may."""
    MEMORY = "recycle_rss"
    MOLD = "recycle_mold"
    """The mold that it came from has been replaced."""
    USED_UP = "used_up"
    """One run was all it was for, or it said itself that it can take no other."""
    STOPPED = "stopped"
    UNREADY = "unready"
    """It ended before it could take a run, or was too slow and was killed for that."""


RECYCLED = frozenset({Parting.RUNS, Parting.MEMORY, Parting.MOLD})
"""Planned replacements of healthy workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartMold:
    """Start a mold, `after` seconds from now, unless one is loading already."""

    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMold:
    """Let a mold end: another one has taken its place, and none of its workers is left."""

    mold: int


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


Intention = StartMold | EndMold | Spawn | Assign | Disclaim | Kill | Retire | End


class Phase(StrEnum):
    """Where a worker stands between its planning and its death."""

    PLANNED = "planned"
    STARTING = "starting"
    STANDBY = "standby"
    """Ready, and waiting for the worker whose place it is to take."""
    IDLE = "idle"
    BUSY = "busy"
    LEAVING = "leaving"
