"""How many connections a door has open: bounded, or clients that say nothing would take its last descriptor.

Owns the bound and who gives way to a newcomer: whoever has been quiet for longest, as a connection that is kept alive
may be closed at any time. Knows no HTTP, and never closes a connection on which a request is under way.
"""

import itertools
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from gateway.metrics import Metrics

QUIET_AFTER: Final = 1.0
"""Seconds that a connection has for its next request before it may be closed in favour of another."""
_LOOK_EVERY: Final = 0.1
"""Seconds between two looks through all connections: a crowd at the door must not cost more than one that is inside."""
_FOUND_AT_ONCE: Final = 64
_DESCRIPTORS: Final = Path("/proc/self/fd")


class Connection(Protocol):
    """What is open."""

    def quiet_since(self) -> float | None:
        """Return since when (monotonic seconds) the client has asked for nothing; None while a request is under way."""

    def drop(self) -> None:
        """Close at once, whatever the client does."""


class OpenConnections:
    """The connections of one process of a door."""

    def __init__(self, most: int, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is the one that `Connection.quiet_since` goes by."""
        self._most = most
        self._metrics = metrics
        self._clock = clock
        self._entering = 0
        """Taken from the system, and not open yet; those whose TLS handshake failed stay counted until they matter."""
        self._open: dict[Connection, None] = {}
        self._quiet = deque[Connection]()
        self._look_at = self._count_at = -_LOOK_EVERY

    def admit(self) -> bool:
        """Let one more in, and close another for it if need be; False when all have something to say."""
        if len(self._open) + self._entering >= self._most and not self._recounted() and not self._make_room():
            self._metrics.connections_ended.labels(why="refused").inc()
            return False
        self._entering += 1
        return True

    def opened(self, connection: Connection) -> None:
        """Take note that one that was let in is open."""
        self._entering = max(0, self._entering - 1)
        self._open[connection] = None
        self._metrics.connections.set(len(self._open))

    def closed(self, connection: Connection) -> None:
        """Take note that one is gone."""
        self._open.pop(connection, None)
        self._metrics.connections.set(len(self._open))

    def _recounted(self) -> bool:
        """Ask the system how many there can be at the most; tell whether that leaves room."""
        now = self._clock()
        if not self._entering or now < self._count_at:
            return False
        self._count_at = now + _LOOK_EVERY
        self._entering = min(self._entering, max(0, sum(1 for _ in _DESCRIPTORS.iterdir()) - len(self._open)))
        return len(self._open) + self._entering < self._most

    def _make_room(self) -> bool:
        now = self._clock()
        if not self._quiet and now >= self._look_at:
            self._look_at = now + _LOOK_EVERY
            found = (connection for connection in self._open if self._is_quiet(connection, now))
            self._quiet.extend(itertools.islice(found, _FOUND_AT_ONCE))
        while self._quiet:
            connection = self._quiet.popleft()
            if connection in self._open and self._is_quiet(connection, now):
                self.closed(connection)
                self._metrics.connections_ended.labels(why="quiet").inc()
                connection.drop()
                return True
        return False

    @staticmethod
    def _is_quiet(connection: Connection, now: float) -> bool:
        since = connection.quiet_since()
        return since is not None and now - since >= QUIET_AFTER
