"""Files that are read again while the door is open: when they change, and at a hang-up.

Owns when. What is wrong with a file is said once for each of its states, and the old content stays in force.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from prometheus_client import Counter

from gateway.contract import logs

log = logging.getLogger("gateway.reloading")

_LOOK_EVERY: Final = 1.0

State = tuple[tuple[int, int, int] | None, ...]


class Reloadable(Protocol):
    """What was read from files."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files."""

    def reload(self) -> None:
        """Read them, or raise ValueError and stay as it was."""


class Reloader:
    """Reads files again; `run()` until cancelled."""

    def __init__(self, parts: Mapping[str, Reloadable], reloads: Counter) -> None:
        """`parts` by the names that logs and the metric `reloads` have for them."""
        self._parts = parts
        self._reloads = reloads
        self._states: dict[str, State] = {}
        self._hang_up = asyncio.Event()

    def boot(self) -> None:
        """Read everything for the first time; raises what a part raises."""
        for name, part in self._parts.items():
            self._states[name] = _state(part)
            part.reload()

    def hang_up(self) -> None:
        """Read everything again soon, changed or not."""
        self._hang_up.set()

    async def run(self) -> None:
        """Watch the files."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hang_up.wait(), _LOOK_EVERY)
            asked = self._hang_up.is_set()
            self._hang_up.clear()
            for name, part in self._parts.items():
                state = _state(part)
                if asked or state != self._states[name]:
                    self._states[name] = state
                    self._reload(name, part)

    def _reload(self, name: str, part: Reloadable) -> None:
        try:
            part.reload()
        except ValueError as error:
            self._reloads.labels(what=name, result="refused").inc()
            logs.event(log, "reload_refused", logging.ERROR, what=name, error=error)
        else:
            self._reloads.labels(what=name, result="done").inc()
            logs.event(log, "reloaded", what=name)


def _state(part: Reloadable) -> State:
    """What changes when a file is written or replaced; taken before it is read, so that no change goes unseen."""
    found: list[tuple[int, int, int] | None] = []
    for path in part.paths:
        try:
            status = path.stat()
        except OSError:
            found.append(None)
        else:
            found.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)
