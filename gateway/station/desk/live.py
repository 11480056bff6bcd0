"""News for open pages, as server-sent events.

Owns `/live`. An event names an edition and nothing of what is in it; a page that has another one fetches itself anew,
when nobody has selected or typed anything on it.
"""

import asyncio
from typing import Final

import sqlalchemy as sa
from aiohttp import web

from gateway.station.desk.bulletin import LOOK_EVERY
from gateway.station.desk.parts import BULLETIN, LISTENERS

MOST_LISTENERS: Final = 200
_BREATHE: Final = 15.0
"""Seconds after which something is sent even without news, so that a dead connection is found."""


def add_routes(app: web.Application) -> None:
    """Add this module's path."""
    app[LISTENERS] = set()
    app.router.add_get("/live", _live)
    app.on_shutdown.append(_let_go)


async def _live(request: web.Request) -> web.StreamResponse:
    listeners, mine = request.app[LISTENERS], asyncio.current_task()
    if len(listeners) >= MOST_LISTENERS or mine is None:
        raise web.HTTPServiceUnavailable(text="too many pages are open", headers={"Retry-After": "60"})
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    listeners.add(mine)
    try:
        await _tell(request, response)
    except (ConnectionResetError, sa.exc.SQLAlchemyError):
        pass  # the browser comes again by itself, with the pause that it was told
    finally:
        listeners.discard(mine)
    return response


async def _tell(request: web.Request, response: web.StreamResponse) -> None:
    await response.write(b"retry: 5000\n\n")
    told, silent = "", 0.0
    while True:
        edition = await request.app[BULLETIN].edition()
        if edition != told:
            await response.write(f"event: edition\ndata: {edition}\n\n".encode())
            told, silent = edition, 0.0
        elif silent >= _BREATHE:
            await response.write(b": still here\n\n")
            silent = 0.0
        await asyncio.sleep(LOOK_EVERY)
        silent += LOOK_EVERY


async def _let_go(app: web.Application) -> None:
    for task in app[LISTENERS]:
        task.cancel()
