"""How late the event loop is: whether anything that one client sent made all the others wait.

Owns that one figure. Never decides anything by it.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from prometheus_client import Histogram

_INTERVAL: Final = 0.02


class Pulse:
    """Wakes fifty times a second and takes down by how much it was too late."""

    def __init__(self, lag: Histogram, looks: Callable[[], None]) -> None:
        """`looks` is called at each beat, for figures that change too often to be told each time."""
        self._lag = lag
        self._look = looks

    async def run(self) -> None:
        """Beat until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + _INTERVAL
            await asyncio.sleep(_INTERVAL)
            self._lag.observe(max(0.0, clock() - due))
            self._look()
