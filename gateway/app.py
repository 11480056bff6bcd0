"""The door as a server: the application, and the written sequence of its start and its end.

Owns start and stop order. Knows neither what a route answers nor how a publish goes.
"""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from gateway import descriptors
from gateway.callers import threshold
from gateway.client_address import networks
from gateway.connection import Runner
from gateway.contract import logs
from gateway.door import Door
from gateway.membership import Membership
from gateway.open_connections import OpenConnections
from gateway.ordinary import STRICT_TRANSPORT, OrdinaryTickets
from gateway.preflight.allocation import give_back_what_is_large
from gateway.preflight.vocabulary import Vocabulary
from gateway.routes import Routes
from gateway.serving import answer_always
from gateway.setting_values import Address
from gateway.settings import DoorSettings
from gateway.traced_requests import traced, traced_take
from gateway.tracing import Service, open_traces

log = logging.getLogger("gateway.app")

_LAST_SECONDS: Final = 2.0
"""Of the grace, or half of it, kept back for what follows the last moment to wait for the broker: answers, closing."""
_SWITCH_INTERVAL: Final = 0.0005
_YOUNG: Final = 5000
"""Objects between two collections of the youngest, which then take half a millisecond."""
_SHUTDOWNS: Final = 8
"""One part in so many of these for each of the two waits that the web server has when it ends."""


class AddressTaken(Exception):
    """The door cannot listen where it should; the text says why."""


class DoorFailed(Exception):
    """A part that should run as long as the door does has ended: our own bug."""


def application(door: Door) -> web.Application:
    """Return the web application around a door's parts."""
    known = threshold(
        door.clients,
        door.metrics,
        trusted=networks(door.settings.trusted_proxies),
        loopback=door.settings.door.is_loopback,
    )
    app = web.Application(
        middlewares=[*traced(door.traces), answer_always, known], client_max_size=door.limits.of(None).max_body_bytes
    )
    app.add_routes(Routes(door).table())
    if door.certificate is not None:
        app.on_response_prepare.append(_insist_on_tls)
    return app


async def _insist_on_tls(_: web.Request, answer: web.StreamResponse) -> None:
    answer.headers["Strict-Transport-Security"] = STRICT_TRANSPORT


@asynccontextmanager
async def listening(door: Door, *, shutdown: float) -> AsyncIterator[tuple[Runner, Address]]:
    """Listen where the settings say; yields the address, with the port that was taken. Raises AddressTaken.

    At the end requests have `shutdown` seconds to get their answer out, and once more to take note that they cannot.
    """
    address = door.settings.door
    most = descriptors.room_for(door.settings.max_connections)
    if most < door.settings.max_connections:
        logs.event(log, "connections_limited", logging.WARNING, most=most, hint="ulimit -n, LimitNOFILE")
    connections = OpenConnections(most, door.metrics, asyncio.get_running_loop().time)
    take = traced_take(OrdinaryTickets(door).take, door.traces)
    runner = Runner(application(door), connections, take, shutdown_timeout=shutdown)
    await runner.setup()
    try:
        context = None if door.certificate is None else door.certificate.context
        shared = None if door.member is None else True
        site = web.TCPSite(runner, address.host, address.port, backlog=1024, ssl_context=context, reuse_port=shared)
        try:
            await site.start()
        except OSError as error:
            raise AddressTaken(f"cannot listen on {address}: {error.strerror or error}") from error
        yield runner, Address(address.host, runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def serve(
    settings: DoorSettings,
    vocabulary: Vocabulary,
    announce: Callable[[str], object],
    member: Membership | None = None,
) -> None:
    """Run a door, or one process of it, until SIGTERM or SIGINT, then end it within the grace.

    1. Readiness turns red and new tickets get a 503, while the listener closes: nobody new comes in.
    2. What is under way is answered, late confirms are awaited, the journal gets its events.
    3. Shortly before the end of the grace nobody waits for the broker any longer: what is unconfirmed is a 503.
    4. Connections close; an upload that has not ended by then is cut off, and its client knows it was not accepted.
    5. Background tasks, broker connections, store, the last spans; what does not close in time is left to the operating
       system.

    Raises BrokerUnreachable, TopologyConflict, MessageTooLarge, AddressTaken, DoorFailed, BadKeyFile, BadCertificate,
    TracesUnavailable.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    last = min(_LAST_SECONDS, settings.drain_grace / 2)
    shutdown = last / _SHUTDOWNS
    end: float | None = None
    traces = open_traces(Service.DOOR, f"{settings.node_name}/door-{os.getpid()}")
    door = Door(settings, vocabulary, member, traces)
    loop.add_signal_handler(signal.SIGHUP, door.reloader.hang_up)
    try:
        version = await door.boot()
        _favour_the_loop()
        loop.add_signal_handler(signal.SIGHUP, door.reloader.hang_up)
        async with listening(door, shutdown=shutdown) as (runner, address):
            keys = door.clients.summary if door.clients.needed else "none needed"
            logs.event(log, "door_open", address=address, broker=version, keys=keys)
            if door.clients.needed and not address.is_loopback and door.certificate is None:
                logs.event(log, "keys_travel_in_clear", logging.WARNING, hint="LAZARETTO_TLS_CERTIFICATE, or a proxy")
            announce(f"door: {'http' if door.certificate is None else 'https'}://{address}")
            await _until_stopped(door, stop)
            end = loop.time() + settings.drain_grace
            for site in list(runner.sites):
                await site.stop()
            await door.drain(end - last)
    finally:
        await door.close((end or loop.time() + last) - shutdown)
    logs.event(log, "door_closed")


def _favour_the_loop() -> None:
    """Keep short what the loop waits for: other threads, and collections of what is here to stay.

    The interpreter lets a thread keep its lock for 5 ms, which the loop would wait at each turn while the store's
    thread is at work; and a full collection that looks through all modules takes 50 ms. A request makes a hundred
    objects that no cycle needs to be looked for in: a look at each seven requests was a tenth of what they cost.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)
    give_back_what_is_large()


async def _until_stopped(door: Door, stop: asyncio.Event) -> None:
    stopped = asyncio.create_task(stop.wait())
    failed = asyncio.create_task(door.failed())
    await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
    door.draining = True
    stopped.cancel()
    if failed.done():
        raise DoorFailed("a background task ended") from failed.result()
    failed.cancel()
