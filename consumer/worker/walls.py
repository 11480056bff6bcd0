"""The limits that a worker puts on itself, before it looks at the ticket's bytes: what the kernel enforces.

Owns the worker's rlimits. The ceiling that the supervisor watches is lower and softer; these are the last walls.
"""

import contextlib
import math
import os
import resource
import threading
from pathlib import Path
from typing import Final

from consumer.pipe import Order
from consumer.worker.used import used_here

_HEADROOM: Final = 256 * 1024 * 1024
"""Address space beyond twice the ceiling: the last wall must not be hit by what is mapped but never touched."""
_LAST_SECONDS: Final = 5
"""Processor seconds between the signal that can be answered and the one that cannot."""
_MOST_TASKS: Final = 1 << 22


class Walls:
    """What stops this process. `build` before each run: the walls in the isolation lane can't be moved afterwards."""

    def __init__(self) -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        self._mapped = pages * os.sysconf("SC_PAGE_SIZE")
        self._memory_limit = 0

    def build(self, order: Order) -> None:
        """Put up what `order` wants; a limit of the system's that is lower stays."""
        if order.memory_limit != self._memory_limit:
            _set(resource.RLIMIT_AS, self._mapped + 2 * order.memory_limit + _HEADROOM, final=order.cpu_seconds > 0)
            self._memory_limit = order.memory_limit
        if order.cpu_seconds > 0:
            used = used_here()
            soft = math.ceil(used.user + used.system + order.cpu_seconds)
            _set(resource.RLIMIT_CPU, soft, hard=soft + _LAST_SECONDS)
        if order.open_files > 0:
            _set(resource.RLIMIT_NOFILE, order.open_files, final=True)
        if order.processes > 0:
            _limit_tasks(order.processes)


def _set(which: int, soft: int, *, hard: int | None = None, final: bool = False) -> None:
    _, most = resource.getrlimit(which)
    wanted = soft if final else hard
    ceiling = most if wanted is None else wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(which, (soft if ceiling == resource.RLIM_INFINITY else min(soft, ceiling), ceiling))


def _limit_tasks(allowance: int) -> None:
    """Let this process and its like have `allowance` tasks more than there are (setrlimit(2), RLIMIT_NPROC).

    The kernel counts all tasks of the user, wherever they run, and binds nobody who may administer the system. From
    inside a container not all of them can be seen, so the limit is raised until one task more fits, and then by the
    allowance: too wide is better than a wall in front of every innocent.
    """
    limit = _tasks_of_user() + allowance
    seen = limit
    while True:
        resource.setrlimit(resource.RLIMIT_NPROC, (limit, resource.getrlimit(resource.RLIMIT_NPROC)[1]))
        if limit > _MOST_TASKS or _one_more_fits():
            break
        limit *= 2
    if limit > seen:
        limit += allowance
    _set(resource.RLIMIT_NPROC, limit, final=True)


def _tasks_of_user() -> int:
    me, count = os.getuid(), 0
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if entry.stat().st_uid == me:
                    count += sum(1 for _ in os.scandir(f"/proc/{entry.name}/task"))
    return count


def _one_more_fits() -> bool:
    probe = threading.Thread(target=lambda: None)
    try:
        probe.start()
    except RuntimeError:
        return False
    probe.join()
    return True
