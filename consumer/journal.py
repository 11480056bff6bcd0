"""Batches this node's events on their way to the station's journal queue.

Owns the order "confirmed, then acknowledge" for events: whoever awaits `write` may acknowledge afterwards. One publish
is under way at a time and takes all that waits, so an idle node flushes at once and a busy one shares confirms. A start
waits for a moment before it is told: the end of a short run says all that there is to say about it.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from consumer.session import Session, SessionLost
from gateway.contract import journal
from gateway.contract.envelope import APP_ID
from gateway.contract.ids import uuid7
from gateway.contract.journal import Event, EventName
from gateway.contract.logs import event
from gateway.contract.outcomes import Stamp
from gateway.contract.topology import Topology
from gateway.contract.wire import Wire

log = logging.getLogger("consumer.journal")

_OVER: Final = "the journal's session is over"
_LINGER_SECONDS: Final = 0.02
"""A run that ends sooner is told of once."""


@dataclass(slots=True)
class _Batch:
    """What goes out together; whoever waits for a part of it waits for all of it."""

    events: list[Event] = field(default_factory=list)
    waiters: list[asyncio.Future[None]] = field(default_factory=list)

    def confirm(self) -> None:
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)

    def refuse(self) -> None:
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_exception(SessionLost(_OVER))


class Journal:
    """The journal of one session; what was not confirmed when the session ends is told again by the redelivery."""

    def __init__(self, session: Session, topology: Topology) -> None:
        self._session = session
        self._route = topology.to_journal()
        self._begun: dict[tuple[str, Stamp], tuple[float, Callable[[], Event]]] = {}
        """Starts that linger, each until when and what makes its event; the oldest first."""
        self._lingering: asyncio.TimerHandle | None = None
        self._waiting = _Batch()
        self._in_flight = _Batch()
        self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._writer = asyncio.create_task(self._flush_batches(), name="journal")

    def note_start(self, ticket: str, stamp: Stamp, begin: Callable[[], Event]) -> None:
        """Queue the event of a start in a moment, and only then make it; an ending that comes sooner swallows it."""
        self._begun[ticket, stamp] = self._loop.time() + _LINGER_SECONDS, begin
        if self._lingering is None:
            self._lingering = self._loop.call_later(_LINGER_SECONDS, self._tell_starts)

    def note(self, *events: Event) -> None:
        """Queue events without waiting for them."""
        for item in events:
            if item.event is EventName.FINISHED:
                self._begun.pop((item.ticket, item.stamp), None)
        self._waiting.events += events
        self._woken.set()

    async def write(self, *events: Event) -> None:
        """Return when the broker has confirmed all of `events`; raises SessionLost."""
        self.note(*events)
        await self._confirmed(self._waiting)

    async def flush(self) -> None:
        """Return when nothing waits any more; raises SessionLost."""
        self.note(*(begin() for _, begin in self._begun.values()))
        self._begun.clear()
        await self._confirmed(self._waiting)

    async def close(self) -> None:
        """End the writer; what still waits hears SessionLost."""
        if self._lingering is not None:
            self._lingering.cancel()
        self._writer.cancel()
        await asyncio.gather(self._writer, return_exceptions=True)
        self._refuse()

    def _tell_starts(self) -> None:
        now, due = self._loop.time(), []
        for key, (until, begin) in self._begun.items():
            if until > now:
                break
            due.append((key, begin))
        for key, begin in due:
            del self._begun[key]
            self.note(begin())
        first = next(iter(self._begun.values()), None)
        self._lingering = None if first is None else self._loop.call_at(first[0], self._tell_starts)

    async def _confirmed(self, batch: _Batch) -> None:
        if self._writer.done():
            raise SessionLost(_OVER)
        waiter = self._loop.create_future()  # one for each who waits: he may be cancelled, and the others wait on
        batch.waiters.append(waiter)
        await waiter

    async def _flush_batches(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            self._in_flight, self._waiting = self._waiting, _Batch()
            try:
                for body in journal.encode(self._in_flight.events):
                    await self._session.publish(self._route, _wire(body))
            except SessionLost as error:
                event(log, "journal.unconfirmed", logging.WARNING, events=len(self._in_flight.events), error=error)
                break
            except Exception as error:
                log.exception("the journal cannot go on; the session starts over")
                self._session.end(f"journal: {type(error).__name__}: {error}")
                break
            self._in_flight.confirm()
            self._in_flight = _Batch()
        self._refuse()

    def _refuse(self) -> None:
        self._in_flight.refuse()
        self._waiting.refuse()


def _wire(body: bytes) -> Wire:
    return Wire(body=body, message_id=uuid7(), content_type="application/json", app_id=APP_ID, type="journal")
