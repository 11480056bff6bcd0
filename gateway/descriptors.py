"""How many files a process may have open, and so how many connections it can hold.

Owns the process' own limit, which is raised as far as the system lets it. Opens nothing.
"""

import contextlib
import resource
from typing import Final

RESERVED: Final = 256
"""Descriptors for all that is no client's connection: broker, store, files, and those who are being turned away."""


def room_for(wanted: int) -> int:
    """Make room for `wanted` connections beside everything else; return for how many there is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVED
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - RESERVED))
