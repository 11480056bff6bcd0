"""The door as a server: the application, and the written sequence of its start and its end.

Owns start and stop order. Knows neither what a route answers nor how a publish goes.
"""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from gateway.contract import logs
from gateway.door import Door
from gateway.preflight.vocabulary import Vocabulary
from gateway.routes import Routes
from gateway.serving import Runner, answer_always
from gateway.settings import Address, DoorSettings

log = logging.getLogger("gateway.app")

_LAST_SECONDS: Final = 2.0
"""Of the grace, kept back for closing connections once what could be answered has been."""


class AddressTaken(Exception):
    """The door cannot listen where it should; the text says why."""


class DoorFailed(Exception):
    """A part that should run as long as the door does has ended: our own bug."""


def application(door: Door) -> web.Application:
    """Return the web application around a door's parts."""
    app = web.Application(middlewares=[answer_always], client_max_size=door.limits.max_body_bytes)
    app.add_routes(Routes(door).table())
    return app


@asynccontextmanager
async def listening(door: Door) -> AsyncIterator[tuple[Runner, Address]]:
    """Listen where the settings say; yields the address, with the port that was taken. Raises AddressTaken."""
    address = door.settings.door
    runner = Runner(application(door), shutdown_timeout=_LAST_SECONDS / 4)
    await runner.setup()
    try:
        site = web.TCPSite(runner, address.host, address.port, backlog=1024)
        try:
            await site.start()
        except OSError as error:
            raise AddressTaken(f"cannot listen on {address}: {error.strerror or error}") from error
        yield runner, Address(address.host, runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def serve(settings: DoorSettings, vocabulary: Vocabulary, announce: Callable[[str], None]) -> None:
    """Run a door until SIGTERM or SIGINT, then end it within the grace.

    1. Readiness turns red and new tickets get a 503, while the listener closes: nobody new comes in.
    2. What is under way is answered, late confirms are awaited, the journal gets its events.
    3. Connections close; who has not been served by then is cut off, and knows that nothing was accepted.
    4. Background tasks, broker connections, store.

    Raises BrokerUnreachable, TopologyConflict, AddressTaken, DoorFailed.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with Door(settings, vocabulary) as door:
        version = await door.boot()
        async with listening(door) as (runner, address):
            logs.event(log, "door_open", address=address, broker=version)
            announce(f"door: http://{address}")
            await _until_stopped(door, stop)
            for site in list(runner.sites):
                await site.stop()
            await door.drain(max(settings.drain_grace - _LAST_SECONDS, settings.drain_grace / 2))
    logs.event(log, "door_closed")


async def _until_stopped(door: Door, stop: asyncio.Event) -> None:
    stopped = asyncio.create_task(stop.wait())
    failed = asyncio.create_task(door.failed())
    await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
    door.draining = True
    stopped.cancel()
    if failed.done():
        raise DoorFailed("a background task ended") from failed.result()
    failed.cancel()
