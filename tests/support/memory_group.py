"""A control group of the kernel with little memory, in which a test runs programs: version 2, or 1 where that is all.

The only place in the tests that has the kernel itself kill for memory.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tests.support.waiting import eventually

_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """A group; whatever joins it has its memory counted from then on, with its children."""

    folder: Path

    def joined(self, argv: list[str]) -> list[str]:
        """Return the command that joins the group and becomes `argv`."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs"), *argv]


def _parents() -> Iterator[tuple[Path, str]]:
    """Yield folders in which groups may be made, and the file that limits one of them."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            yield _ROOT / "memory" / path.lstrip("/"), "memory.limit_in_bytes"
            yield _ROOT / "memory", "memory.limit_in_bytes"
        elif not controllers:
            yield _ROOT, "memory.max"  # a group that has processes of its own may have none below it


@contextmanager
def memory_group(limit: int) -> Iterator[MemoryGroup | None]:
    """Make a group that has at most `limit` bytes; None where this user or this machine may have none."""
    folder = next(filter(None, (_made(parent, name, limit) for parent, name in _parents())), None)
    if folder is None:
        yield None
        return
    try:
        yield MemoryGroup(folder)
    finally:
        eventually(lambda: _removed(folder), saying="all processes of the group have ended")


def _made(parent: Path, name: str, limit: int) -> Path | None:
    folder = parent / f"lazaretto-{os.getpid()}-{uuid4().hex[:8]}"
    try:
        folder.mkdir()
    except OSError:
        return None
    try:
        if not (folder / name).is_file():
            (parent / "cgroup.subtree_control").write_text("+memory")
        (folder / name).write_text(str(limit))
    except OSError:
        folder.rmdir()
        return None
    return folder


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except OSError:
        return not folder.exists()
    return True
