"""How much memory a process has now, and whether the kernel has been killing for it; read from /proc and the cgroup.

Never uses `ru_maxrss` as current memory: it does not fall.
"""

import os
import select
from pathlib import Path
from typing import Final

from consumer.worker.lineage import descendants

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_RESIDENT, _SHARED = 1, 2
_CGROUPS: Final = Path("/sys/fs/cgroup")


def resident(statm: int) -> int:
    """Return the bytes that are resident now for the process whose open `statm` this is; 0 once it is dead."""
    try:
        return int(os.pread(statm, 128, 0).split()[_RESIDENT]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def own() -> int:
    """Return the resident bytes of this process; 0 where nothing can be opened any more."""
    try:
        statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return resident(statm)
    finally:
        os.close(statm)


def open_rollup(pid: int, pidfd: int) -> int | None:
    """Open what the kernel adds up of a process's pages; None where it will not, or where the process has ended.

    The number is looked up before the process is seen to be alive, so that it cannot have meant somebody else.
    """
    try:
        rollup = os.open(f"/proc/{pid}/smaps_rollup", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    watch = select.poll()
    watch.register(pidfd, select.POLLIN)
    if watch.poll(0):
        os.close(rollup)
        return None
    return rollup


def private(rollup: int | None, statm: int) -> int:
    """Return the bytes that only this process has, and would be free without it; 0 once it is dead.

    Where the kernel does not tell, the anonymous ones, some of which it may share with what it was forked from.
    """
    try:
        lines = os.pread(rollup, 4096, 0).splitlines() if rollup is not None else []
        sizes = [int(line.split()[1]) for line in lines if line.startswith((b"Private_Clean:", b"Private_Dirty:"))]
    except (OSError, IndexError, ValueError):
        sizes = []
    return sum(sizes) * 1024 if sizes else anonymous(statm)


def anonymous(statm: int) -> int:
    """Return the resident bytes that no file stands behind; 0 once the process is dead."""
    try:
        columns = os.pread(statm, 128, 0).split()
        return (int(columns[_RESIDENT]) - int(columns[_SHARED])) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def beneath(pid: int, most: int) -> int:
    """Return the bytes of all that descends from the living process `pid`, which count towards its limit of `most`.

    Anonymous bytes, which the kernel tells at once; where these come to more than `most`, only those that are private
    to each, for copies of one process share what none of them has changed.
    """
    family = descendants(pid)
    if not family:
        return 0
    total = sum(_anonymous_of(one) for one in family)
    return total if total <= most else sum(_private_of(one) for one in family)


def _anonymous_of(pid: int) -> int:
    try:
        columns = Path(f"/proc/{pid}/statm").read_bytes().split()
        return (int(columns[_RESIDENT]) - int(columns[_SHARED])) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def _private_of(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines()
    except OSError:  # it has ended, or the kernel does not tell of this one
        return _anonymous_of(pid)
    return sum(int(line.split()[1]) for line in lines if line.startswith((b"Private_Clean:", b"Private_Dirty:"))) * 1024


class OomWatch:
    """The kernel's count of memory kills in our cgroup, version 2 or 1; where there is none, it never rises."""

    def __init__(self) -> None:
        self._file = _counter_file()
        self._seen = self._count()

    def rose(self) -> bool:
        """Whether the kernel has killed for memory since the last call."""
        before, self._seen = self._seen, self._count()
        return self._seen > before

    def _count(self) -> int:
        if self._file is None:
            return 0
        try:
            lines = self._file.read_text().splitlines()
        except OSError:
            return 0
        return sum(int(value) for name, _, value in (line.partition(" ") for line in lines) if name == "oom_kill")


def _counter_file() -> Path | None:
    candidates: list[Path] = []
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        inside = path.lstrip("/")
        if not controllers:
            candidates += [_CGROUPS / inside / "memory.events", _CGROUPS / "memory.events"]
        elif "memory" in controllers.split(","):
            # In a container the path may be the host's; the cgroup itself is then mounted at the top.
            candidates += [_CGROUPS / "memory" / inside / "memory.oom_control", _CGROUPS / "memory/memory.oom_control"]
    return next((path for path in candidates if path.is_file()), None)
