"""`serve`: keeper, outbox and desk in one process, started and stopped in a written order.

Owns the composition and the order. Start: store, broker and topology, desk, keeper, outbox. Stop, at SIGTERM: the
keeper takes nothing more and finishes its transaction, the outbox its alert, then the desk closes.
"""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aio_pika.abc import AbstractConnection
from aiohttp import web

from gateway import broker
from gateway.contract.logs import event
from gateway.settings import StationSettings
from gateway.station import amqp
from gateway.station import channels as alert_channels
from gateway.station.desk import routes
from gateway.station.keeper import CONNECT_DEADLINE, Keeper
from gateway.station.outbox import Outbox
from gateway.station.sender import Sender
from gateway.station.spool import Spool
from gateway.station.store import Store
from gateway.station.vitals import Vitals

logger: Final = logging.getLogger("lazaretto.station")


async def serve(settings: StationSettings) -> None:
    """Run until SIGTERM or SIGINT; raises BrokerUnreachable, TopologyConflict, ChannelUnusable, OSError (port)."""
    amqp.read_any_properties()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    sender = Sender(settings.broker_url)
    channels = alert_channels.configured(settings.alert_urls, sender, settings.topology)
    store = await Store.open(settings.store)
    try:
        connection = await _connected(settings)
        vitals = Vitals()
        keeper = Keeper(
            urls=settings.broker_url,
            topology=settings.topology,
            store=store,
            spool=Spool(settings.data / "spool"),
            channels=[channel.name for channel in channels],
            vitals=vitals,
        )
        outbox = Outbox(store=store, channels=channels, desk=settings.desk_link)
        async with _listening(settings, store, vitals), asyncio.TaskGroup() as group:
            group.create_task(keeper.run(stop, connection))
            group.create_task(outbox.run(stop))
            event(logger, "station.ready", desk=settings.desk_link, broker=broker.version(connection))
    except* broker.TopologyConflict as conflict:
        raise conflict.exceptions[0] from None
    finally:
        await sender.close()
        await store.close()
    event(logger, "station.stopped")


async def check(settings: StationSettings) -> list[str]:
    """Try everything that `serve` needs and say what was found; raises what `serve` raises."""
    sender = Sender(settings.broker_url)
    channels = alert_channels.configured(settings.alert_urls, sender, settings.topology)
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
            f"broker    {broker.version(connection)}",
            f"topology  prefix {settings.prefix}, {len(settings.topology.queues())} queues, {len(new)} of them new",
            f"alerts    {', '.join(channel.name for channel in channels)}",
            f"desk      {settings.desk_link}",
        ]
    finally:
        await broker.close(connection)


async def _connected(settings: StationSettings) -> AbstractConnection:
    connection = await broker.connect(settings.broker_url, name="station", deadline=CONNECT_DEADLINE)
    try:
        await broker.declare(connection, settings.topology)
    except BaseException:
        await broker.close(connection)
        raise
    return connection


@asynccontextmanager
async def _listening(settings: StationSettings, store: Store, vitals: Vitals) -> AsyncIterator[None]:
    runner = web.AppRunner(routes.application(settings, store, vitals), access_log=None, handle_signals=False)
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.desk.host, settings.desk.port).start()
        yield
    finally:
        await runner.cleanup()
