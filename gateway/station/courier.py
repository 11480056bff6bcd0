"""Sends what clients are owed, each event at least once, in the order of its ticket.

Owns the rows of `callbacks` from their insertion on. An event is marked after it went out, never before; a station that
dies in between sends it again under the same id. Each client is served at its own pace: one that does not answer
rests, and holds up nobody else. What a client has not taken for too long is dead, counted and logged, never forgotten.
"""

import asyncio
import logging
import random
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from gateway.callback import Callback
from gateway.contract.logs import event
from gateway.contract.text import clip
from gateway.station.callbacks import clients_waiting, configure, waiting
from gateway.station.pauses import pause
from gateway.station.store import Store
from gateway.station.tables.callbacks import callbacks
from gateway.station.webhook import NotTaken, Post

POLL: Final = 0.5
TOGETHER: Final = 32
"""Clients that are being sent to at a time."""
_BATCH: Final = 16
_FIRST_PAUSE: Final = 2.0
_LONGEST_PAUSE: Final = 3600.0
_LONGEST_REST: Final = 60.0
_MAX_ERROR: Final = 500
_MOST_DOUBLINGS: Final = 16
_MEAN_JITTER: Final = 0.75
_STORE_TROUBLE: Final = (sa.exc.SQLAlchemyError, OSError)

logger: Final = logging.getLogger("lazaretto.courier")


class Courier:
    """The sending side. `run` until `stop` is set."""

    def __init__(self, *, store: Store, post: Post, patience: float) -> None:
        """`patience` is for how many seconds an event is tried, in those that the station is there."""
        self._store = store
        self._post = post
        self._patience = patience
        self._known: Mapping[str, Sequence[Callback]] = {}
        self._told: Mapping[str, str] | None = None
        self._rests: dict[str, tuple[int, float]] = {}
        """By client: failures in a row, and the moment until which it is left alone."""

    def know(self, known: Mapping[str, Sequence[Callback]]) -> None:
        """Serve these clients from now on."""
        self._known = known
        self._told = None

    async def prepare(self) -> None:
        """Have the store know who is to be told, before anything is reported; if it cannot be used, later."""
        try:
            await self._take_note()
        except _STORE_TROUBLE as error:
            event(logger, "courier.waits", logging.WARNING, error=error)

    async def _take_note(self) -> None:
        urls = {client: known[0].url for client, known in self._known.items()}
        if urls != self._told:
            await configure(self._store, urls)
            self._told = urls

    async def run(self, stop: asyncio.Event) -> None:
        """Send what is due, again and again; while the store cannot be used, wait for it."""
        serving: dict[str, asyncio.Task[None]] = {}
        try:
            while not stop.is_set():
                for client in [client for client, task in serving.items() if task.done()]:
                    serving.pop(client).result()
                try:
                    await self._take_note()
                    for client in await self._due(serving):
                        serving[client] = asyncio.create_task(self._serve(client, stop), name=f"callbacks of {client}")
                except _STORE_TROUBLE as error:
                    event(logger, "courier.waits", logging.WARNING, error=error)
                await pause(stop, POLL)
            if serving:
                await asyncio.wait(serving.values())
        finally:
            for task in serving.values():
                task.cancel()
            await self._post.close()

    async def _due(self, serving: Collection[str]) -> Sequence[str]:
        now = time.monotonic()
        resting = {client for client, (_, until) in self._rests.items() if until > now}
        free = [client for client in self._known if client not in serving and client not in resting]
        room = TOGETHER - len(serving)
        if not free or room <= 0:
            return []
        async with self._store.reading() as transaction:
            return (await transaction.scalars(clients_waiting(time.time(), free, room))).all()

    async def _serve(self, client: str, stop: asyncio.Event) -> None:
        """Send to one client, until there is nothing due or it did not take one."""
        try:
            async with self._store.reading() as transaction:
                rows = (await transaction.execute(waiting(client, time.time(), _BATCH))).all()
            for row in rows:
                known = self._known.get(client)
                if not known or stop.is_set():
                    return
                if not await self._settle(row, known):
                    failures = self._rests.get(client, (0, 0.0))[0] + 1
                    self._rests[client] = (failures, time.monotonic() + min(_LONGEST_REST, _jittered(failures - 1)))
                    return
                self._rests.pop(client, None)
        except _STORE_TROUBLE as error:
            event(logger, "courier.waits", logging.WARNING, error=error)

    async def _settle(self, row: Any, known: Sequence[Callback]) -> bool:
        now = time.time()
        changes: dict[str, Any] = {"last_error": None}
        try:
            await self._post.send(known, row.event_id, int(now), row.document.encode())
            changes["sent_at"] = time.time()
        except NotTaken as error:
            changes["last_error"] = clip(str(error), _MAX_ERROR)
            changes["due_at"] = time.time() + min(_LONGEST_PAUSE, _jittered(row.tries))
            # From its first try on: that nobody tried before is not the fault of its client.
            begun = row.first_tried_at or (row.created_at if row.tries else now)
            changes["first_tried_at"] = begun
            is_dead = spanned(row.tries) >= self._patience
            if is_dead:
                changes["dead_at"] = time.time()
            said = "callback.dead" if is_dead else "callback.failed"
            level = logging.ERROR if is_dead else logging.WARNING
            event(logger, said, level, ticket=row.ticket, client=row.client, tries=row.tries + 1, error=error)
        update = sa.update(callbacks).where(callbacks.c.id == row.id).values(tries=callbacks.c.tries + 1, **changes)
        async with self._store.writing() as transaction:
            await transaction.execute(update)
            if "dead_at" in changes:  # what has waited behind it for as long would be tried one by one
                waited = callbacks.c.created_at <= changes["first_tried_at"]
                late = sa.and_(callbacks.c.client == row.client, waited)
                unsent = sa.and_(callbacks.c.sent_at.is_(None), callbacks.c.dead_at.is_(None))
                await transaction.execute(sa.update(callbacks).where(late, unsent).values(dead_at=changes["dead_at"]))
        return "sent_at" in changes


def spanned(tries: int) -> float:
    """Return for how many seconds an event has been tried when so many tries have failed, counting their pauses alone.

    By the clock it may be longer: what a station that is down, or a client that rests, adds is not the event's doing.
    """
    growing = min(tries, _MOST_DOUBLINGS)
    pauses = sum(min(_LONGEST_PAUSE, _MEAN_JITTER * _FIRST_PAUSE * float(2**doublings)) for doublings in range(growing))
    return pauses + (tries - growing) * _LONGEST_PAUSE


def _jittered(doublings: int) -> float:
    """Return a pause between half of its full length and all of it: many that failed at once come back spread."""
    whole = _FIRST_PAUSE * float(2 ** min(doublings, _MOST_DOUBLINGS))
    return random.uniform(whole / 2, whole)
