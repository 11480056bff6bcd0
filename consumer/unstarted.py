"""Runs that are ordered and that no worker has heard of yet: what was read ahead, and what waits for a new worker.

Owns one timer for all of them. Gives nothing back itself: it tells who has waited for too long.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

LONG_SECONDS: Final = 5.0
"""Nobody reads ahead to wait for so long: others may have a slot free."""


class Unstarted:
    """The runs, the oldest first; `late` gets those that have waited for `LONG_SECONDS`, again and again."""

    def __init__(self, late: Callable[[list[str]], None]) -> None:
        self._late = late
        self._since: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __contains__(self, run: str) -> bool:
        return run in self._since

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._since))

    def add(self, run: str) -> None:
        """Have a run wait from now on."""
        loop = asyncio.get_running_loop()
        self._since[run] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(LONG_SECONDS, self._look)

    def discard(self, run: str) -> None:
        """Have it wait no more."""
        self._since.pop(run, None)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        before = loop.time() - LONG_SECONDS
        late = [run for run, since in self._since.items() if since <= before]
        self._timer = loop.call_later(LONG_SECONDS, self._look) if self._since else None
        if late:
            self._late(late)
