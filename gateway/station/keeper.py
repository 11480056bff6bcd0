"""Moves what arrives for the station into the store, one transaction for a batch, then acknowledges.

Owns the only acknowledgements of the station. Never acknowledges what is not committed, and never cycles: what cannot
be stored as it is goes to salvage, alone; a store that cannot be written keeps everything waiting.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import sqlalchemy as sa
from aio_pika.abc import AbstractChannel, AbstractConnection
from aiormq.exceptions import ChannelInvalidStateError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.amqp import broker
from gateway.contract import journal
from gateway.contract.journal import Event
from gateway.contract.logs import event
from gateway.contract.topology import Topology
from gateway.contract.trace_context import TraceContext
from gateway.contract.wire import Wire
from gateway.station import arrival as arrivals
from gateway.station import early_warnings, holding, ledger, proofs, tallying
from gateway.station.arrival import Arrival
from gateway.station.inlet import Arrived, Inlet
from gateway.station.pauses import pause
from gateway.station.salvage import Salvage, is_of_the_message
from gateway.station.spool import Spool
from gateway.station.store import Store
from gateway.station.vitals import Vitals
from gateway.tracing import OFF, Traces
from gateway.tracing.conventions import receiving

PREFETCH_ITEMS: Final = 16
ITEMS_AHEAD: Final = 240
PREFETCH_JOURNAL: Final = 128
CONNECT_DEADLINE: Final = 10.0
WATCH: Final = 5.0
"""Seconds between looks at the queues themselves: a consumer that hears nothing from a full one starts over."""
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds to wait after the first, second, ... failure in a row; the last one from then on."""

logger: Final = logging.getLogger("lazaretto.keeper")

_STORE_TROUBLE: Final = (sa.exc.SQLAlchemyError, OSError)

Stored = Sequence[tuple[Arrival, str | None]]
"""Items of one transaction, each under the name that it got, or None where it was known."""
Save = Callable[[AsyncConnection, Sequence[Wire]], Awaitable[Stored]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One queue, and what becomes of its messages."""

    inlet: Inlet
    save: Save
    divide: Callable[[Wire], Sequence[Wire]]
    """What to try one by one where the store does not take a message as a whole."""

    @property
    def queue(self) -> str:
        """Its name."""
        return self.inlet.queue


class Keeper:
    """Consumes on a connection of its own. `run` until `stop` is set."""

    def __init__(
        self,
        *,
        urls: Sequence[str],
        topology: Topology,
        store: Store,
        spool: Spool,
        channels: Sequence[str],
        vitals: Vitals,
        traces: Traces = OFF,
    ) -> None:
        self._urls = urls
        self._topology = topology
        self._store = store
        self._salvage = Salvage(store=store, spool=spool, channels=channels)
        self._channels = channels
        self._vitals = vitals
        self._traces = traces

    async def run(self, stop: asyncio.Event, connection: AbstractConnection) -> None:
        """Work on `connection`, then on a new one after each loss; raises TopologyConflict when a queue has changed."""
        failures = 0
        next_connection: AbstractConnection | None = connection
        while not stop.is_set():
            started = time.monotonic()
            try:
                if next_connection is None:
                    next_connection = await broker.connect(self._urls, name="station", deadline=CONNECT_DEADLINE)
                    await broker.declare(next_connection, self._topology)
                # In a task of its own: a TaskGroup on Python 3.11 may leave the task around it marked as cancelled
                # for good, and on 3.11.2 the next await then ends it: a station without its keeper.
                session = asyncio.create_task(self._session(next_connection, stop), name="session")
                await broker.owned_result(session)
            except* (*broker.LOST, ChannelInvalidStateError) as group:
                event(logger, "keeper.lost", logging.WARNING, error=_first(group))
            finally:
                self._vitals.consuming = False
                if next_connection is not None:
                    await broker.close(next_connection)
                next_connection = None
            failures = 0 if time.monotonic() - started > WATCH else failures + 1
            await pause(stop, _pause_after(failures))

    async def _session(self, connection: AbstractConnection, stop: asyncio.Event) -> None:
        ended = asyncio.Event()
        items = Inlet(queue=self._topology.quarantine_queue, prefetch=PREFETCH_ITEMS, ahead=ITEMS_AHEAD, ended=ended)
        events = Inlet(queue=self._topology.journal_queue, prefetch=PREFETCH_JOURNAL, ahead=0, ended=ended)
        lines = (
            _Line(inlet=items, save=self._save_items, divide=lambda _: ()),
            _Line(inlet=events, save=self._save_events, divide=_halves),
        )
        async with asyncio.TaskGroup() as group:
            for line in lines:
                await line.inlet.open(connection)
                group.create_task(self._read(line, ended))
            watchers = [
                group.create_task(_set_when(broker.lost(connection), ended)),
                group.create_task(_set_when(stop.wait(), ended)),
                group.create_task(self._watch(connection, lines, ended)),
            ]
            self._vitals.consuming = True
            event(logger, "keeper.consuming", queues=len(lines))
            await ended.wait()
            self._vitals.consuming = False
            for line in lines:
                line.inlet.end()
            for watcher in watchers:
                watcher.cancel()

    async def _read(self, line: _Line, ended: asyncio.Event) -> None:
        try:
            while batch := await line.inlet.batch():
                began = time.time()
                if not await self._keep(line, [one.wire for one in batch], ended):
                    return
                await line.inlet.settle(batch)
                if self._traces.is_on and line.queue == self._topology.quarantine_queue:
                    self._tell(batch, began)
            await line.inlet.flush()
        finally:
            ended.set()

    def _tell(self, batch: Sequence[Arrived], began: float) -> None:
        """Tell of each item that is stored by now as a span of its trace."""
        for item in batch:
            operation = receiving(item.wire, self._topology.quarantine_queue)
            self._traces.begin(operation, TraceContext.of(item.wire.headers), at=began).end({})

    async def _keep(self, line: _Line, wires: Sequence[Wire], ended: asyncio.Event) -> bool:
        """Store a batch for certain, however long the store takes to come back; False when the session ended first."""
        failures = 0
        while True:
            try:
                await self._save(line, wires)
            except _STORE_TROUBLE as error:
                failures += 1
                self._vitals.store_error = f"{type(error).__name__}: {error}"
                event(logger, "store.unusable", logging.ERROR, queue=line.queue, waiting=len(wires), error=error)
                await pause(ended, _pause_after(failures))
                if ended.is_set():
                    return False
            else:
                self._vitals.store_error = None
                return True

    async def _save(self, line: _Line, wires: Sequence[Wire], *, again: bool = False) -> None:
        try:
            stored = await self._store.write(lambda transaction: line.save(transaction, wires))
        except Exception as error:
            if not is_of_the_message(error):
                raise
            if isinstance(error, sa.exc.IntegrityError) and len(wires) == 1 and not again:
                # Another station, or what is left of a killed one, has just stored the same or its namesake: a second
                # look finds that row.
                await self._save(line, wires, again=True)
                return
            # Only what cannot be stored may suffer for it.
            parts = wires if len(wires) > 1 else line.divide(wires[0])
            for part in parts:
                await self._save(line, [part])
            if not parts:
                is_item = line.queue == self._topology.quarantine_queue
                await self._salvage.keep(wires[0], source=line.queue, error=error, is_item=is_item)
        else:
            for arrival, name in stored:
                _tell_stored(arrival, name)

    async def _save_items(self, transaction: AsyncConnection, wires: Sequence[Wire]) -> Stored:
        found, now = [arrivals.read(wire) for wire in wires], time.time()
        new, others = await holding.take_in_new(transaction, found, channels=self._channels, now=now)
        names = [await holding.take_in(transaction, one, channels=self._channels, now=now) for one in others]
        await proofs.settle(transaction, [(arrival.ticket, arrival.generation) for arrival in found])
        return [*((arrival, arrival.ticket) for arrival in new), *zip(others, names, strict=True)]

    async def _save_events(self, transaction: AsyncConnection, wires: Sequence[Wire]) -> Stored:
        read = [journal.decode_each(wire.body) for wire in wires]
        names = Counter(one.event.value for events, _ in read for one in events)
        for events in _lots([events for events, _ in read]):
            await ledger.post(transaction, events)
            await early_warnings.owe(transaction, events, self._channels, time.time())
            told = ((one.ticket, one.stamp.generation) for one in events if one.standing is not None)
            await proofs.settle(transaction, told)
        for wire, (_, others) in zip(wires, read, strict=True):
            if others is not None:
                error = ValueError("events that this version cannot read")
                source = self._topology.journal_queue
                await self._salvage.write_raw(transaction, replace(wire, body=others), source=source, error=error)
        await tallying.add(transaction, tallying.EVENTS, names)
        return ()

    async def _watch(self, connection: AbstractConnection, lines: Sequence[_Line], ended: asyncio.Event) -> None:
        """End the session when a queue is gone, or holds messages that this consumer never gets (seen with clients)."""
        while not ended.is_set():
            before = [line.inlet.arrived for line in lines]
            await pause(ended, WATCH)
            channel = await _opened(connection)
            depths = await broker.depths(channel, [line.queue for line in lines])
            await broker.within(channel.close(), broker.CALL_DEADLINE)
            for line, depth, count in zip(lines, depths, before, strict=True):
                idle = line.inlet.is_empty and line.inlet.arrived == count and self._vitals.store_error is None
                if depth.messages and idle:
                    event(logger, "keeper.starved", logging.WARNING, queue=line.queue, messages=depth.messages)
                    ended.set()


def _tell_stored(arrival: Arrival, name: str | None) -> None:
    if name is None:
        event(logger, "item.known", ticket=arrival.ticket, generation=arrival.generation)
    else:
        event(logger, "item.stored", ticket=name, generation=arrival.generation, reason=arrival.reason)


def _lots(batches: Iterable[Sequence[Event]]) -> Iterator[Sequence[Event]]:
    """Put small batches together: what is asked about the events of one lot has a bounded number of parameters."""
    lot: list[Event] = []
    for events in batches:
        if lot and len(lot) + len(events) > journal.MAX_BATCH_EVENTS:
            yield lot
            lot = []
        lot.extend(events)
    if lot:
        yield lot


def _halves(wire: Wire) -> list[Wire]:
    return [replace(wire, body=half) for half in journal.halves(wire.body)]


async def _opened(connection: AbstractConnection) -> AbstractChannel:
    try:
        channel = connection.channel()
    except RuntimeError as error:  # the client's word for a connection that has just closed
        raise broker.BrokerLost(str(error)) from error
    await broker.within(channel.initialize(), broker.CALL_DEADLINE)
    return channel


async def _set_when(happens: Awaitable[object], ended: asyncio.Event) -> None:
    await happens
    ended.set()


def _pause_after(failures: int) -> float:
    return _PAUSES[min(failures, len(_PAUSES)) - 1] if failures else 0.0


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
