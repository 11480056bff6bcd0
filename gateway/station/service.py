"""`serve`: keeper, outbox and desk in one process, started and stopped in a written order.

Owns the composition and the order. Start: store, broker and topology, desk, keeper, outbox. Stop, at SIGTERM: the
keeper takes nothing more and finishes its transaction, the outbox its alert, then the desk closes; whatever has not
ended within the drain grace is left, since all that is owed stands in the store or waits in the broker.
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Final

from aio_pika.abc import AbstractConnection
from aiohttp import web

from gateway.amqp import broker, messages
from gateway.contract.logs import event
from gateway.depot import open_depot
from gateway.settings import StationSettings, load
from gateway.station import wiring
from gateway.station.addressees import Addressees
from gateway.station.courier import Courier
from gateway.station.depot_sweep import DepotSweep
from gateway.station.desk import routes
from gateway.station.desk.doorkeeper import Doorkeeper
from gateway.station.executor import Executor
from gateway.station.grouping import Grouper
from gateway.station.identity import Role
from gateway.station.keeper import CONNECT_DEADLINE, Keeper
from gateway.station.outbox import Outbox
from gateway.station.pauses import pause
from gateway.station.reconciler import Reconciler, asker
from gateway.station.refusal_watch import RefusalWatch
from gateway.station.reminders import Reminders
from gateway.station.roster import Roster
from gateway.station.sender import Sender
from gateway.station.spool import Spool
from gateway.station.store import Store
from gateway.station.sweeper import Sweeper, rules
from gateway.station.tombstones import Tombstones
from gateway.station.unclaimed import Patience
from gateway.station.vitals import Vitals
from gateway.station.webhook import Post
from gateway.tracing import Service, Traces, are_wanted, open_traces

PROBE: Final = 2.0
"""Seconds between two tries to write to the store, for readiness."""
PROBE_PATIENCE: Final = 0.5
_CLOSING: Final = 5.0
"""Seconds of the drain grace that are left for connections and desk to close."""
_DESK_CLOSING: Final = 1.0

logger: Final = logging.getLogger("lazaretto.station")


async def serve(settings: StationSettings) -> None:
    """Run until SIGTERM or SIGINT; raises BrokerUnreachable, TopologyConflict, ChannelUnusable, OSError (port)."""
    messages.read_any_properties()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    traces = open_traces(Service.STATION)
    sender = Sender(settings.broker_url, traces)
    alerting = wiring.channels(settings, sender)
    depot = open_depot(settings.depot)
    store = await Store.open(settings.store)
    connection: AbstractConnection | None = None
    try:
        connection = await _connected(settings)
        vitals = Vitals()
        keeper = Keeper(
            urls=settings.broker_url,
            topology=settings.topology,
            store=store,
            spool=Spool(settings.data / "spool"),
            channels=alerting.names,
            vitals=vitals,
            traces=traces,
        )
        outbox = Outbox(
            store=store,
            channels=alerting.channels,
            mirrors=alerting.mirrors,
            desk=settings.desk_link,
            rate=settings.alert_pace,
        )
        courier = Courier(
            store=store, post=Post(private=settings.callback_private), patience=settings.callback_patience
        )
        addressees = Addressees(settings.keys, courier.know)
        watch = RefusalWatch(store=store, channels=alerting.names_for_operators, threshold=settings.refusal_threshold)
        over = rules(
            tickets=settings.ticket_retention,
            refusals=settings.refusal_retention,
            operations=settings.item_retention,
        )
        reconciler = Reconciler(
            store=store,
            ask=asker(settings.broker_url, settings.topology),
            channels=alerting.names_for_operators,
            vitals=vitals,
            every=settings.reconcile_every,
            patience=settings.reconcile_patience,
        )
        depot_sweep = DepotSweep(
            store=store,
            depot=depot,
            urls=settings.broker_url,
            topology=settings.topology,
            patience=Patience(retention=settings.attachments_retention, grace=settings.attachments_grace),
        )
        executor = Executor(
            store=store,
            sender=sender,
            topology=settings.topology,
            replay_limit=settings.replay_limit,
            lease=settings.operation_lease,
        )
        roster = Roster(store, lambda: load(StationSettings).duties)
        loop.add_signal_handler(signal.SIGHUP, roster.hang_up)
        reminders = Reminders(store=store, channels=alerting.names_for_operators, desk=settings.desk_link)
        # Before the keeper takes anything: what nobody is known to want told is owed to nobody.
        addressees.look()
        await courier.prepare()
        async with _listening(settings, store, vitals, traces), asyncio.TaskGroup() as group:
            working = [
                group.create_task(keeper.run(stop, connection)),
                group.create_task(outbox.run(stop)),
                group.create_task(watch.run(stop)),
                group.create_task(addressees.run(stop)),
                group.create_task(courier.run(stop)),
                group.create_task(reconciler.run(stop)),
                group.create_task(Tombstones(store=store, keep=settings.item_retention).run(stop)),
                group.create_task(Sweeper(store=store, rules=over).run(stop)),
                group.create_task(depot_sweep.run(stop)),
                group.create_task(executor.run(stop)),
                group.create_task(roster.run(stop)),
                group.create_task(Grouper(store).run(stop)),
                group.create_task(reminders.run(stop)),
                group.create_task(_probe(store, vitals, stop)),
            ]
            group.create_task(_end(working, stop, settings.drain_grace))
            event(logger, "station.ready", desk=settings.desk_link, broker=broker.version(connection))
    except* broker.TopologyConflict as conflict:
        raise conflict.exceptions[0] from None
    finally:
        if connection is not None and not connection.is_closed:  # or it was the keeper's
            await broker.close(connection)
        await sender.close()
        await store.close()
        await traces.close()
    event(logger, "station.stopped")


async def check(settings: StationSettings) -> list[str]:
    """Try everything that `serve` needs and say what was found; raises what `serve` raises."""
    traced = are_wanted(os.environ)
    open_depot(settings.depot)
    sender = Sender(settings.broker_url)
    alerting = wiring.channels(settings, sender)
    store = await Store.open(settings.store)
    try:
        writable = await store.writable()
    finally:
        await store.close()
    connection = await broker.connect(settings.broker_url, name="station check", deadline=CONNECT_DEADLINE)
    try:
        new = await broker.declare(connection, settings.topology)
        return [
            f"store     {store.dialect}, {'writable' if writable else 'NOT WRITABLE'}",
            f"desk      {_asked(settings)}",
            f"broker    {broker.version(connection)}",
            f"topology  prefix {settings.prefix}, {len(settings.topology.queues())} queues, {len(new)} of them new",
            f"alerts    {', '.join(alerting.names)}",
            f"traces    {'on' if traced else 'off'}",
            f"desk      {settings.desk_link}",
        ]
    finally:
        await broker.close(connection)


def _asked(settings: StationSettings) -> str:
    """Say whom the desk asks who he is; raises BadKeyFile."""
    known = Doorkeeper(settings)
    able = len(known.who_may(Role.READER))
    return f"{settings.desk}, {able} people or groups" if known.asks else f"{settings.desk}, asks nobody who he is"


async def _probe(store: Store, vitals: Vitals, stop: asyncio.Event) -> None:
    """Try now and then whether the store takes a write, once for everybody who asks."""
    while not stop.is_set():
        vitals.writable = await store.writable(patience=PROBE_PATIENCE)
        await pause(stop, PROBE)


async def _end(working: Collection[asyncio.Task[None]], stop: asyncio.Event, grace: float) -> None:
    """Once `stop` is set, give the work its time and no more; the process ends within `grace` whatever holds it."""
    await stop.wait()
    last_resort = threading.Timer(grace, _leave)
    last_resort.daemon = True
    last_resort.start()
    _, late = await asyncio.wait(working, timeout=max(grace - _CLOSING, grace / 2))
    for task in late:
        task.cancel()


def _leave() -> None:
    # A thread that waits for a locked store, or a connection that does not close, cannot be told to stop. What it was
    # doing is not committed or not acknowledged, and comes again.
    event(logger, "station.overdue", logging.WARNING)
    os._exit(0)


async def _connected(settings: StationSettings) -> AbstractConnection:
    connection = await broker.connect(settings.broker_url, name="station", deadline=CONNECT_DEADLINE)
    try:
        await broker.declare(connection, settings.topology)
    except BaseException:
        await broker.close(connection)
        raise
    return connection


_LONGEST_LINE: Final = 64 << 10
"""Bytes: the address under which a page of items is decided about names each of them, as its client has called it."""


@asynccontextmanager
async def _listening(settings: StationSettings, store: Store, vitals: Vitals, traces: Traces) -> AsyncIterator[None]:
    runner = web.AppRunner(
        routes.application(settings, store, vitals, traces),
        access_log=None,
        handle_signals=False,
        shutdown_timeout=_DESK_CLOSING,
        max_line_size=_LONGEST_LINE,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.desk.host, settings.desk.port).start()
        yield
    finally:
        await runner.cleanup()
