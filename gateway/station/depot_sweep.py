"""Removes from the depot what nobody can want any more; the only one that removes anything there.

Owns the looks at broker and store that the rule decides by, and their order: first the lanes, then quarantine and
journal, then the store. What leaves a lane leaves a record in the journal before it is acknowledged, so nothing can
pass by unseen. While the station has not stored what waits for it, nothing is removed.
"""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.amqp import broker
from gateway.contract.logs import event
from gateway.contract.outcomes import TicketState
from gateway.contract.references import owner_of
from gateway.contract.topology import Lane, Topology
from gateway.depot import Depot, DepotDown, Folder
from gateway.station import holds
from gateway.station.pauses import pause
from gateway.station.storable import parsed
from gateway.station.store import Store
from gateway.station.tables.items import items, spooled
from gateway.station.tables.tickets import tickets
from gateway.station.unclaimed import Claims, Patience, Standing, may_go

EVERY: Final = 3600.0
_AGAIN: Final = 60.0
"""Seconds until the next try when the station had not caught up, or something could not be reached."""
_BATCH: Final = 200
_LOOKS: Final = 100
_STARTS: Final = sa.table("starts", sa.column("ticket"), sa.column("closed"))
"""As much of the fence's table as is needed here."""
_TROUBLE: Final = (*broker.LOST, broker.BrokerUnreachable, sa.exc.SQLAlchemyError, OSError, DepotDown)

logger: Final = logging.getLogger("lazaretto.depot")


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What one sweep found and did."""

    folders: int
    bytes: int
    removed: int


class DepotSweep:
    """Sweeps one depot. `run` until `stop` is set."""

    def __init__(
        self,
        *,
        store: Store,
        depot: Depot,
        urls: Sequence[str],
        topology: Topology,
        patience: Patience,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._depot = depot
        self._urls = urls
        self._topology = topology
        self._patience = patience
        self._clock = clock
        self._quiet: deque[float] = deque(maxlen=_LOOKS)

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep again and again."""
        while not stop.is_set():
            swept = None
            try:
                swept = await self.sweep()
            except _TROUBLE as error:
                event(logger, "depot.unswept", logging.WARNING, error=error)
            if swept is not None:
                found = {"folders": swept.folders, "bytes": swept.bytes, "removed": swept.removed}
                event(logger, "depot.swept", logging.INFO if swept.removed else logging.DEBUG, **found)
            await pause(stop, _AGAIN if swept is None else EVERY)

    async def sweep(self) -> Swept | None:
        """Sweep once; None when the station has not caught up with its queues. Raises what went wrong."""
        if not await self._look():
            return None
        folders = size = removed = 0
        kept = await self._kept()
        walk = self._depot.folders()
        while batch := await asyncio.to_thread(_next, walk):
            for folder, claims in zip(batch, await self._claims(batch, kept), strict=True):
                folders, size = folders + 1, size + folder.bytes
                if may_go(folder, claims, self._patience, quiet=self._quiet, now=self._clock()):
                    # Not if a door has written there since: whatever sent it again may be taken in now.
                    before = math.nextafter(folder.newest, math.inf)
                    removed += await asyncio.to_thread(self._depot.remove, folder.name, before=before)
        return Swept(folders=folders, bytes=size, removed=removed)

    async def _look(self) -> bool:
        """Look at the queues, lanes first; return whether all that was sent to the station has come to be stored."""
        lanes = [self._topology.lane_queue(lane) for lane in Lane]
        ours = [self._topology.quarantine_queue, self._topology.journal_queue]
        connection = await broker.connect(self._urls, name="station sweep", deadline=broker.CALL_DEADLINE)
        try:
            channel = await broker.open_channel(connection)
            waiting = [depth.messages for depth in await broker.depths(channel, [*lanes, *ours])]
        finally:
            await broker.close(connection)
        async with self._store.writing() as transaction:  # what cannot be written to may be behind in what it says
            is_spooled = await transaction.scalar(sa.select(sa.func.count()).select_from(spooled))
        if not any(waiting) and not is_spooled:  # a raw file may be of any ticket
            self._quiet.append(self._clock())
        return not any(waiting[len(lanes) :])

    async def _kept(self) -> set[str]:
        """Return the folders that messages of items refer to whose bodies are here, whatever was decided about them."""
        named = sa.and_(items.c.admission.like('%"stored":"%'), items.c.admission.not_like('%"stored":""%'))
        query = sa.select(items.c.admission).where(named, items.c.removed_at.is_(None))
        async with self._store.reading() as transaction:
            return {str(parsed(admission)["stored"]) for admission in await transaction.scalars(query)}

    async def _claims(self, folders: Sequence[Folder], kept: set[str]) -> list[Claims]:
        owners = [owner_of(folder.name) or "" for folder in folders]
        async with self._store.reading() as transaction:
            standing = await _standing(transaction, owners)
            open_starts = await _open_starts(transaction, owners)
            waiting = await holds.find_each(transaction, owners)
        return [
            Claims(
                owner=standing.get(owner),
                kept=folder.name in kept,
                started=owner in open_starts,
                on_hold=owner in waiting,
            )
            for folder, owner in zip(folders, owners, strict=True)
        ]


async def _standing(transaction: AsyncConnection, wanted: Sequence[str]) -> dict[str, Standing]:
    columns = (tickets.c.ticket, tickets.c.state, tickets.c.updated_at)
    rows: Any = await transaction.execute(sa.select(*columns).where(tickets.c.ticket.in_(wanted)))
    return {row.ticket: Standing(state=TicketState(row.state), updated_at=row.updated_at) for row in rows}


async def _open_starts(transaction: AsyncConnection, wanted: Sequence[str]) -> set[str]:
    if not await transaction.run_sync(lambda connection: sa.inspect(connection).has_table(_STARTS.name)):
        return set()  # no node has a fence here
    query = sa.select(_STARTS.c.ticket).where(_STARTS.c.ticket.in_(wanted), sa.not_(_STARTS.c.closed))
    return set((await transaction.scalars(query)).all())


def _next(walk: Iterator[Folder]) -> list[Folder]:
    return list(islice(walk, _BATCH))
