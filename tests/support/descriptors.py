"""A process of ours that runs out of descriptors."""

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Let this process open so many more descriptors while the context lasts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    listed = {int(entry.name) for entry in Path("/proc/self/fd").iterdir()}
    taken = {number for number in listed if _is_open(number)}
    limit = 0
    while limit - sum(number < limit for number in taken) < count:
        limit += 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _is_open(number: int) -> bool:
    """Whether it is open still: the descriptor with which the others were listed is not."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
