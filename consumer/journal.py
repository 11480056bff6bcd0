"""Batches this node's events on their way to the station's journal queue.

Owns the order "confirmed, then acknowledge" for events: whoever awaits `write` may acknowledge afterwards. One publish
is under way at a time and takes all that waits, so an idle node flushes at once and a busy one shares confirms.
"""

import asyncio
import logging

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


class Journal:
    """The journal of one session; what was not confirmed when the session ends is told again by the redelivery."""

    def __init__(self, session: Session, topology: Topology) -> None:
        self._session = session
        self._route = topology.to_journal()
        self._waiting: list[tuple[Event, asyncio.Future[None]]] = []
        self._in_flight: list[tuple[Event, asyncio.Future[None]]] = []
        self._woken = asyncio.Event()
        self._writer = asyncio.create_task(self._flush_batches(), name="journal")

    def note(self, *events: Event) -> list[asyncio.Future[None]]:
        """Queue events without waiting for them; an ending swallows its own start that still waits here."""
        loop = asyncio.get_running_loop()
        ended = {(item.ticket, item.stamp) for item in events if item.event is EventName.FINISHED}
        if ended:
            self._waiting = [entry for entry in self._waiting if not _is_start_of(entry, ended)]
        entries = [(item, loop.create_future()) for item in events]
        for _, confirmed in entries:
            confirmed.add_done_callback(_retrieve)
            if self._writer.done():
                confirmed.set_exception(SessionLost("the journal's session is over"))
        self._waiting += entries
        self._woken.set()
        return [confirmed for _, confirmed in entries]

    async def write(self, *events: Event) -> None:
        """Return when the broker has confirmed all of `events`; raises SessionLost."""
        await asyncio.gather(*self.note(*events))

    async def flush(self) -> None:
        """Return when nothing waits any more; raises SessionLost."""
        await asyncio.gather(*(confirmed for _, confirmed in (*self._in_flight, *self._waiting)))

    async def close(self) -> None:
        """End the writer; what still waits hears SessionLost."""
        self._writer.cancel()
        await asyncio.gather(self._writer, return_exceptions=True)
        self._refuse([*self._in_flight, *self._waiting])

    async def _flush_batches(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            self._in_flight, self._waiting = self._waiting, []
            try:
                for body in journal.encode(item for item, _ in self._in_flight):
                    await self._session.publish(self._route, _wire(body))
            except SessionLost as error:
                event(log, "journal.unconfirmed", logging.WARNING, events=len(self._in_flight), error=error)
                break
            except Exception as error:
                log.exception("the journal cannot go on; the session starts over")
                self._session.end(f"journal: {type(error).__name__}: {error}")
                break
            for _, confirmed in self._in_flight:
                if not confirmed.done():
                    confirmed.set_result(None)
            self._in_flight = []
        self._refuse([*self._in_flight, *self._waiting])

    @staticmethod
    def _refuse(batch: list[tuple[Event, asyncio.Future[None]]]) -> None:
        for _, confirmed in batch:
            if not confirmed.done():
                confirmed.set_exception(SessionLost("the journal's session is over"))


def _is_start_of(entry: tuple[Event, asyncio.Future[None]], ended: set[tuple[str, Stamp]]) -> bool:
    item, confirmed = entry
    swallowed = item.event is EventName.STARTED and (item.ticket, item.stamp) in ended
    if swallowed and not confirmed.done():
        confirmed.set_result(None)
    return swallowed


def _retrieve(confirmed: asyncio.Future[None]) -> None:
    """A noted event that nobody awaits must not warn when its session ends."""
    if not confirmed.cancelled():
        confirmed.exception()


def _wire(body: bytes) -> Wire:
    return Wire(body=body, message_id=uuid7(), content_type="application/json", app_id=APP_ID, type="journal")
