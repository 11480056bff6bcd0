"""Ports on loopback for programs that are told where to listen before they do.

Owns that no two of them are told the same: the kernel never gives out these ports by itself, as it does for outgoing
connections, and whoever is given one here keeps the others away from it for a while, across processes.
"""

import contextlib
import os
import secrets
import socket
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_LOWEST: Final = 10_000
_HIGHEST: Final = 65_535
_RANGE_FILE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_DEFAULT_RANGE: Final = (32_768, 60_999)
_MOST_KEPT: Final = 64
"""Claims of this process. The oldest go when there are more: whoever asked for those is listening by now, or gone."""
_kept: Final[deque[int]] = deque()


def free_port() -> int:
    """Return a TCP port on loopback that is free, and that nobody else is given here meanwhile."""
    for port in _candidates(*_given_out_by_the_kernel()):
        if (claim := _claimed(port)) is None:
            continue
        if _is_free(port):
            _kept.append(claim.detach())
            if len(_kept) > _MOST_KEPT:
                os.close(_kept.popleft())
            return port
        claim.close()
    return _any_port()


def _candidates(first: int, last: int) -> Iterator[int]:
    ports = [*range(_LOWEST, min(first, _HIGHEST + 1)), *range(max(last + 1, _LOWEST), _HIGHEST + 1)]
    if ports:
        start = secrets.randbelow(len(ports))  # not of the seed that a test may have set in two processes
        yield from ports[start:]
        yield from ports[:start]


def _given_out_by_the_kernel() -> tuple[int, int]:
    try:
        first, last = _RANGE_FILE.read_text("utf-8").split()
    except OSError:
        return _DEFAULT_RANGE
    return int(first), int(last)


def _claimed(port: int) -> socket.socket | None:
    """Claim a port among all who ask here: by a name that the kernel forgets with the process."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0lazaretto-port-{port}")
    except OSError:
        claim.close()
        return None
    return claim


def _is_free(port: int) -> bool:
    with socket.socket() as listener, contextlib.suppress(OSError):
        listener.bind(("127.0.0.1", port))
        return True
    return False


def _any_port() -> int:
    """Where the kernel gives out every port by itself: one that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
