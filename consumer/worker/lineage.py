"""Who descends from a process, as the kernel lists it: proc(5), `/proc/<pid>/task/<tid>/children`.

Asks and never changes anything. Where the kernel has no such lists (CONFIG_PROC_CHILDREN), nobody has children.
"""

import os
from typing import Final

_MOST_THREADS: Final = 64
"""Looked at in one process; a child is listed with the thread that started it."""
MOST: Final = 256
"""Descendants in one answer."""


def children(pid: int) -> list[int]:
    """Return the process ids of the children of `pid` that it has not waited for."""
    found: list[int] = []
    try:
        # Paths as objects would cost four times as much, twenty times a second for each long run.
        for thread in os.listdir(f"/proc/{pid}/task")[:_MOST_THREADS]:  # noqa: PTH208
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as listed:  # noqa: PTH123
                found += map(int, listed.read().split())
    except OSError:  # it has ended, or a thread of it has
        return found
    return found


def descendants(pid: int) -> list[int]:
    """Return the process ids of all that descend from `pid`, at most `MOST`, each before its own children."""
    found = children(pid)
    for one in found:  # grows while it is walked
        if len(found) >= MOST:
            break
        found += children(one)
    return found[:MOST]
