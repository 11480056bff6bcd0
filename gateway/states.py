"""The door's eye on the station's store: where a ticket stands, in time or not at all.

Owns the store's connection in the door, and whether it answers. Nothing waits for the store beyond a deadline, and
nothing is cancelled in the middle of it: what the database holds up goes on by itself and is bounded in number.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Mapping
from typing import Final

from gateway.contract import logs
from gateway.station.store import Store, TicketStatus

log = logging.getLogger("gateway.states")

_DEADLINE: Final = 3.0
_LOOK_EVERY: Final = 2.0
_BLIND_AFTER: Final = 6.0
"""Seconds without an answer after which the store counts as unreachable, although nothing has failed."""
_MOST_ASKING: Final = 64
_NOBODY: Final = "~"


class StatusUnavailable(Exception):
    """The store of ticket states cannot be read now."""


class States:
    """Reads the states of tickets; `run()` until cancelled."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._store: Store | None = None
        self._looked = asyncio.Event()
        self._failing = False
        self._seen_at = -_BLIND_AFTER
        self._asking: set[asyncio.Task[Mapping[str, TicketStatus]]] = set()

    @property
    def store(self) -> Store | None:
        """The store, once it could be opened."""
        return self._store

    @property
    def reachable(self) -> bool:
        """Tell whether the store answered a moment ago."""
        return not self._failing and time.monotonic() - self._seen_at < _BLIND_AFTER

    async def looked(self) -> None:
        """Return once it is known whether the store can be opened."""
        await self._looked.wait()

    async def run(self) -> None:
        """Open the store as soon as that can be done, and see every few seconds whether it answers."""
        while True:
            try:
                if self._store is None:
                    self._store = await Store.open(self._url)
                await self._store.ticket_status(_NOBODY)
            except Exception as error:  # noqa: BLE001 - tickets do not need the store, whatever its driver raises
                if not self._failing:
                    logs.event(log, "store_unreachable", logging.WARNING, error=error)
                self._failing = True
            else:
                self._failing = False
                self._seen_at = time.monotonic()
            self._looked.set()
            await asyncio.sleep(_LOOK_EVERY)

    async def ask(self, tickets: Collection[str]) -> Mapping[str, TicketStatus]:
        """Return what the store knows of tickets, in one look; raises StatusUnavailable within three seconds."""
        if len(self._asking) >= _MOST_ASKING:
            raise StatusUnavailable
        asking = asyncio.create_task(self._ask(tickets))
        self._asking.add(asking)
        asking.add_done_callback(self._asked)
        await asyncio.wait({asking}, timeout=_DEADLINE)
        if not asking.done() or asking.cancelled():
            raise StatusUnavailable
        error = asking.exception()
        if error is not None:
            logs.event(log, "status_unavailable", logging.WARNING, error=error)
            raise StatusUnavailable from error
        return asking.result()

    async def close(self) -> None:
        """Let go of the store."""
        for asking in self._asking:
            asking.cancel()
        if self._store is not None:
            await self._store.close()
            self._store = None

    async def _ask(self, tickets: Collection[str]) -> Mapping[str, TicketStatus]:
        await self._looked.wait()
        if self._store is None:
            raise StatusUnavailable
        return await self._store.ticket_statuses(tickets)

    def _asked(self, asking: asyncio.Task[Mapping[str, TicketStatus]]) -> None:
        self._asking.discard(asking)
        if not asking.cancelled():
            asking.exception()  # heard, although the one who asked may be gone
