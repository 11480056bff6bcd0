"""The one owner of this process's signals: what asks for the end, and what a hang-up (SIGHUP) stands for.

A signal sets an event and nothing else. What is to be done on a hang-up is handed in, and done one after the other by a
task, also while a drain goes on; what fails is told and keeps nothing else from being done.
"""

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import Final

from gateway.contract.logs import event

log = logging.getLogger("consumer.signals")

_ENDS: Final = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Listens while it is open; `drain` is called on SIGTERM and SIGINT."""

    def __init__(self, *, drain: Callable[[], None]) -> None:
        self._drain = drain
        self._acts: list[Callable[[], None]] = []
        self._hung_up = asyncio.Event()
        self._attending: asyncio.Task[None] | None = None

    def on_hang_up(self, act: Callable[[], None]) -> None:
        """Have something done on each SIGHUP, after what was handed in before; on the loop, so it must be quick."""
        self._acts.append(act)

    def open(self) -> None:
        """Begin to listen; call it on the running loop."""
        loop = asyncio.get_running_loop()
        for number in _ENDS:
            loop.add_signal_handler(number, self._drain)
        loop.add_signal_handler(signal.SIGHUP, self._hung_up.set)
        self._attending = asyncio.create_task(self._attend(), name="signals")

    async def close(self) -> None:
        """Do nothing any more on a hang-up; the end can still be asked for, without effect."""
        if self._attending is not None:
            self._attending.cancel()
            await asyncio.gather(self._attending, return_exceptions=True)

    async def _attend(self) -> None:
        while True:
            await self._hung_up.wait()
            self._hung_up.clear()
            event(log, "signal.hang_up")
            for act in self._acts:
                try:
                    act()
                except Exception:
                    log.exception("something that a hang-up asks for failed")
