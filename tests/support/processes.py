"""Looks at processes that may end while they are looked at."""

from collections.abc import Callable, Iterable

import psutil


def is_gone(process: psutil.Process | int) -> bool:
    """Return whether it has ended, whether or not its parent has taken note of that."""
    try:
        found = psutil.Process(process) if isinstance(process, int) else process
        return not found.is_running() or found.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def those(processes: Iterable[psutil.Process], wanted: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """Return the processes that `wanted` is true of; one that ends meanwhile is none of them."""
    found = []
    for process in processes:
        try:
            if wanted(process):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found
