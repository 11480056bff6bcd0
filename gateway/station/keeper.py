"""Moves what arrives for the station into the store, one transaction for a batch, then acknowledges.

Owns the only acknowledgements of the station. Never acknowledges what is not committed, and never cycles: what cannot
be stored as it is goes to salvage, alone; a store that cannot be written keeps everything waiting.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import sqlalchemy as sa
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage
from aiormq.exceptions import ChannelInvalidStateError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import broker
from gateway.contract import journal
from gateway.contract.logs import event
from gateway.contract.topology import Topology
from gateway.contract.wire import Wire
from gateway.station import arrival as arrivals
from gateway.station import early_warnings, holding, ledger, proofs
from gateway.station.amqp import received
from gateway.station.arrival import Arrival
from gateway.station.pauses import pause
from gateway.station.salvage import Salvage, is_of_the_message
from gateway.station.spool import Spool
from gateway.station.store import Store
from gateway.station.vitals import Vitals

PREFETCH_ITEMS: Final = 16
"""Few, since each may be as large as the broker lets a message be, and all of them are in memory together."""
PREFETCH_JOURNAL: Final = 128
CONNECT_DEADLINE: Final = 10.0
WATCH: Final = 5.0
"""Seconds between looks at the queues themselves: a consumer that hears nothing from a full one starts over."""
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds to wait after the first, second, ... failure in a row; the last one from then on."""

logger: Final = logging.getLogger("lazaretto.keeper")

_STORE_TROUBLE: Final = (sa.exc.SQLAlchemyError, OSError)

Save = Callable[[AsyncConnection, Sequence[Wire]], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class _Line:
    """One queue being read: what arrived and waits for its transaction."""

    queue: str
    prefetch: int
    save: Save
    divide: Callable[[Wire], Sequence[Wire]]
    """What to try one by one where the store does not take a message as a whole."""
    waiting: asyncio.Queue[AbstractIncomingMessage | None]
    arrived: int = 0

    async def batch(self) -> list[AbstractIncomingMessage]:
        """Return what is there, at least one message; nothing when the session has ended."""
        messages = [await self.waiting.get()]
        while not self.waiting.empty() and len(messages) < self.prefetch:
            messages.append(self.waiting.get_nowait())
        return [] if None in messages else [message for message in messages if message is not None]

    async def take(self, message: AbstractIncomingMessage) -> None:
        """Be the broker client's callback: it must not wait for the store."""
        self.arrived += 1
        self.waiting.put_nowait(message)


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
    ) -> None:
        self._urls = urls
        self._topology = topology
        self._store = store
        self._salvage = Salvage(store=store, spool=spool, channels=channels)
        self._channels = channels
        self._vitals = vitals

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
        lines = (
            _line(self._topology.quarantine_queue, PREFETCH_ITEMS, self._save_items, lambda _: ()),
            _line(self._topology.journal_queue, PREFETCH_JOURNAL, self._save_events, _halves),
        )
        async with asyncio.TaskGroup() as group:
            for line in lines:
                await self._consume(connection, line, ended)
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
                line.waiting.put_nowait(None)
            for watcher in watchers:
                watcher.cancel()

    async def _consume(self, connection: AbstractConnection, line: _Line, ended: asyncio.Event) -> None:
        channel: AbstractChannel = await _opened(connection)
        channel.close_callbacks.add(lambda *_: ended.set())
        underlay = await channel.get_underlay_channel()
        underlay.on_consumer_cancel_callbacks.add(lambda *_: ended.set())
        await channel.set_qos(prefetch_count=line.prefetch, timeout=broker.CALL_DEADLINE)
        queue = await channel.get_queue(line.queue, ensure=False)
        await queue.consume(line.take, timeout=broker.CALL_DEADLINE)

    async def _read(self, line: _Line, ended: asyncio.Event) -> None:
        try:
            while messages := await line.batch():
                if not await self._keep(line, messages, ended):
                    return
                # One channel for one queue, in order: the last tag covers the whole batch.
                await messages[-1].ack(multiple=True)
        finally:
            ended.set()

    async def _keep(self, line: _Line, messages: Sequence[AbstractIncomingMessage], ended: asyncio.Event) -> bool:
        """Store a batch for certain, however long the store takes to come back; False when the session ended first."""
        failures = 0
        while True:
            try:
                await self._save(line, [received(message) for message in messages])
            except _STORE_TROUBLE as error:
                failures += 1
                self._vitals.store_error = f"{type(error).__name__}: {error}"
                event(logger, "store.unusable", logging.ERROR, queue=line.queue, waiting=len(messages), error=error)
                await pause(ended, _pause_after(failures))
                if ended.is_set():
                    return False
            else:
                self._vitals.store_error = None
                return True

    async def _save(self, line: _Line, wires: Sequence[Wire], *, again: bool = False) -> None:
        try:
            async with self._store.writing() as transaction:
                await line.save(transaction, wires)
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

    async def _save_items(self, transaction: AsyncConnection, wires: Sequence[Wire]) -> None:
        found, now = [arrivals.read(wire) for wire in wires], time.time()
        stored, others = await holding.take_in_new(transaction, found, channels=self._channels, now=now)
        for arrival in stored:
            _tell_stored(arrival, arrival.ticket)
        for arrival in others:
            _tell_stored(arrival, await holding.take_in(transaction, arrival, channels=self._channels, now=now))
        await proofs.settle(transaction, [(arrival.ticket, arrival.generation) for arrival in found])

    async def _save_events(self, transaction: AsyncConnection, wires: Sequence[Wire]) -> None:
        # Each message by itself: what is asked about its events has a bounded number of parameters.
        for wire in wires:
            events, others = journal.decode_each(wire.body)
            await ledger.post(transaction, events)
            await early_warnings.owe(transaction, events, self._channels, time.time())
            told = ((one.ticket, one.stamp.generation) for one in events if one.standing is not None)
            await proofs.settle(transaction, told)
            if others is not None:
                error = ValueError("events that this version cannot read")
                source = self._topology.journal_queue
                await self._salvage.write_raw(transaction, replace(wire, body=others), source=source, error=error)

    async def _watch(self, connection: AbstractConnection, lines: Sequence[_Line], ended: asyncio.Event) -> None:
        """End the session when a queue is gone, or holds messages that this consumer never gets (seen with clients)."""
        while not ended.is_set():
            before = [line.arrived for line in lines]
            await pause(ended, WATCH)
            channel = await _opened(connection)
            depths = await broker.depths(channel, [line.queue for line in lines])
            await broker.within(channel.close(), broker.CALL_DEADLINE)
            for line, depth, count in zip(lines, depths, before, strict=True):
                idle = line.waiting.empty() and line.arrived == count and self._vitals.store_error is None
                if depth.messages and idle:
                    event(logger, "keeper.starved", logging.WARNING, queue=line.queue, messages=depth.messages)
                    ended.set()


def _line(queue: str, prefetch: int, save: Save, divide: Callable[[Wire], Sequence[Wire]]) -> _Line:
    return _Line(queue=queue, prefetch=prefetch, save=save, divide=divide, waiting=asyncio.Queue())


def _tell_stored(arrival: Arrival, name: str | None) -> None:
    if name is None:
        event(logger, "item.known", ticket=arrival.ticket, generation=arrival.generation)
    else:
        event(logger, "item.stored", ticket=name, generation=arrival.generation, reason=arrival.reason)


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
