"""How many bytes of requests a door holds, counted as they arrive: a size that was only declared takes no room.

Owns the two bounds: on everything held, and on bodies whose end has not come, so that clients who start uploads and
never end them cannot take the room of those who have something to say (G11, D14). Knows no HTTP.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

_UNFINISHED_SHARE: Final = 2
"""Bodies that are not whole may fill one part in this many of the room."""


class Room:
    """The room for all requests of one door."""

    def __init__(self, capacity: int) -> None:
        """`capacity` in bytes."""
        self._capacity = capacity
        self.taken = 0
        """Bytes that are held at this moment."""
        self._unfinished = 0
        self._empty = asyncio.Event()
        self._empty.set()
        self.requests = 0
        """Requests inside at this moment."""

    @contextlib.contextmanager
    def place(self) -> Iterator["Place"]:
        """Let one request in; what it holds is given back when it leaves."""
        place = self.enter()
        try:
            yield place
        finally:
            self.leave(place)

    def enter(self) -> "Place":
        """Let one request in, for whom `leave` is certain to be called."""
        self.requests += 1
        self._empty.clear()
        return Place(self)

    def leave(self, place: "Place") -> None:
        """Let it go, and what it holds; once is enough."""
        if not place.inside:
            return
        place.inside = False
        self.change(-place.held, unfinished=-place.unfinished)
        self.requests -= 1
        if self.requests == 0:
            self._empty.set()

    def fits(self, more: int, *, unfinished: bool) -> bool:
        """Tell whether `more` bytes fit, which may or may not belong to a body whose end has not come."""
        if unfinished and self._unfinished + more > self._capacity // _UNFINISHED_SHARE:
            return False
        return self.taken + more <= self._capacity

    def change(self, held: int, *, unfinished: int) -> None:
        """Count bytes in, or out when negative."""
        self.taken += held
        self._unfinished += unfinished

    async def emptied(self) -> None:
        """Return when no request is inside."""
        await self._empty.wait()


class Place:
    """What one request holds of the room."""

    __slots__ = ("_room", "held", "inside", "unfinished")

    def __init__(self, room: Room) -> None:
        self._room = room
        self.inside = True
        self.held = 0
        self.unfinished = 0

    def hold(self, size: int, *, whole: bool) -> bool:
        """Account for a body of `size` bytes by now, `whole` when its end has come; False when they do not fit."""
        more = size - self.held
        if not self._room.fits(more, unfinished=not whole):
            return False
        unfinished = 0 if whole else size
        self._room.change(more, unfinished=unfinished - self.unfinished)
        self.held, self.unfinished = size, unfinished
        return True
