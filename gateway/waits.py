"""Clients that wait for a ticket to change, and the one look at the store for all of them.

Owns who waits, how many may, and how often is looked. Never asks the store for one client alone. Knows no HTTP.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gateway.metrics import Metrics
from gateway.states import StatusUnavailable
from gateway.station.store import TicketStatus

_SHARE: Final = 4
"""One client may take one place in so many of them, where clients have names."""

Look = Callable[[Collection[str]], Awaitable[Mapping[str, TicketStatus]]]


class TooManyWaiting(Exception):
    """There is no place for one more."""


class End(StrEnum):
    """Why a wait is over."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    """Its time is over."""
    GONE = "gone"
    """Nobody is there to be told."""
    CLOSING = "closing"
    """The door is about to end."""


Known = Callable[[TicketStatus | None], bool]
"""Tells whether a status, None where nobody has heard of the ticket, is no news to who waits."""


@dataclass(slots=True, eq=False, kw_only=True)
class _Waiter:
    ticket: str
    status: TicketStatus | None
    known: Known
    gone: Callable[[], bool]
    seen: bool = True
    """Whether the last look told something."""
    over: asyncio.Future[End] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def end(self, why: End) -> None:
        if not self.over.done():
            self.over.set_result(why)


class Waits:
    """The waits of one door; `run()` until cancelled."""

    def __init__(self, look: Look, metrics: Metrics, *, every: float, longest: float, most: int, shared: bool) -> None:
        """`every` and `longest` in seconds; `shared` where clients have names and one may not take all places."""
        self.every = every
        self.longest = longest
        self.most = most
        self.most_of_one = max(1, most // _SHARE) if shared else most
        self._look = look
        self._metrics = metrics
        self._waiting: set[_Waiter] = set()
        self._of_client = Counter[str]()
        self._somebody = asyncio.Event()
        self._closing = False

    async def changed(
        self,
        ticket: str,
        found: TicketStatus | None,
        seconds: float,
        *,
        client: str,
        known: Known,
        gone: Callable[[], bool],
    ) -> TicketStatus | None:
        """Return where a ticket stands once that is no longer `known`, at the latest after `seconds`.

        `found` is where it stands now, None where nobody has heard of it yet. `gone` tells whether nobody would hear
        the answer. Raises TooManyWaiting, and StatusUnavailable when the time is over and the store could not be read
        any more.
        """
        if self._closing:
            return found
        if len(self._waiting) >= self.most or self._of_client[client] >= self.most_of_one:
            self._metrics.waits.labels(end="refused").inc()
            raise TooManyWaiting
        waiter = _Waiter(ticket=ticket, status=found, known=known, gone=gone)
        self._enter(waiter, client)
        try:
            await asyncio.wait({waiter.over}, timeout=min(seconds, self.longest))
            end = waiter.over.result() if waiter.over.done() else End.UNCHANGED
            self._metrics.waits.labels(end=end).inc()
        finally:
            self._leave(waiter, client)
        if not waiter.seen:
            raise StatusUnavailable
        return waiter.status

    async def run(self) -> None:
        """Look at what is waited for, as long as anything is."""
        while True:
            await self._somebody.wait()
            await asyncio.sleep(self.every)
            await self._look_once()

    def close(self) -> None:
        """End all waits; whoever wants to wait from now on is answered at once."""
        self._closing = True
        for waiter in self._waiting:
            waiter.end(End.CLOSING)

    async def _look_once(self) -> None:
        for waiter in self._waiting:
            if waiter.gone():
                waiter.end(End.GONE)
        asked = [waiter for waiter in self._waiting if not waiter.over.done()]
        if not asked:
            return
        try:
            found = await self._look({waiter.ticket for waiter in asked})
        except StatusUnavailable:
            for waiter in asked:
                waiter.seen = False
            return
        for waiter in asked:
            waiter.seen = True
            waiter.status = found.get(waiter.ticket, waiter.status)
            if not waiter.known(waiter.status):
                waiter.end(End.CHANGED)

    def _enter(self, waiter: _Waiter, client: str) -> None:
        self._waiting.add(waiter)
        self._of_client[client] += 1
        self._metrics.waiting.set(len(self._waiting))
        self._somebody.set()

    def _leave(self, waiter: _Waiter, client: str) -> None:
        self._waiting.discard(waiter)
        self._of_client[client] -= 1
        if not self._of_client[client]:
            del self._of_client[client]
        self._metrics.waiting.set(len(self._waiting))
        if not self._waiting:
            self._somebody.clear()
