"""What goes to a broker goes in bundles: at once while it has nothing to do, else when it has answered, or in a moment.

Owns when. A write, a commit and a confirm of its own cost a message more, at door and broker, than all the rest of it,
and a busy broker answers no sooner for being asked one by one. Nothing waits on a quiet door.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

MOMENT: Final = 0.001
"""Seconds that anything waits for others to go with, at most."""
MOST: Final = 64
"""What waits for no more."""

T = TypeVar("T")


class Bundles(Generic[T]):
    """Keeps the order in which things came."""

    def __init__(self, send: Callable[[Sequence[T]], None]) -> None:
        """`send` is called in a turn of the loop of its own; `ended` is to be called once for each thing it sent."""
        self._send = send
        self._waiting: list[T] = []
        self._under_way = 0
        self._goes: asyncio.Handle | None = None

    def put(self, thing: T) -> None:
        """Have it sent: with this turn of the loop, or within a moment."""
        self._waiting.append(thing)
        if self._goes is None and self._under_way:
            self._goes = asyncio.get_running_loop().call_later(MOMENT, self.go)
        elif self._goes is None or len(self._waiting) == MOST:
            self._go_soon()

    def ended(self) -> None:
        """Take note that the broker is done with one of those that were sent."""
        self._under_way -= 1
        if not self._under_way and self._waiting:
            self._go_soon()

    def go(self) -> None:
        """Send now what waits."""
        if self._goes is not None:
            self._goes.cancel()
            self._goes = None
        waiting, self._waiting = self._waiting, []
        self._under_way += len(waiting)
        self._send(waiting)

    def _go_soon(self) -> None:
        if self._goes is not None:
            self._goes.cancel()
        self._goes = asyncio.get_running_loop().call_soon(self.go)
