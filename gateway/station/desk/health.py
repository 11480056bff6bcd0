"""Health, readiness and metrics of the station, over HTTP.

Owns their paths and status codes. Counts nothing itself.
"""

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from gateway.station import figures
from gateway.station.desk.parts import STORE, VITALS


def add_routes(app: web.Application) -> None:
    """Add this module's paths."""
    app.router.add_get("/healthz", _alive)
    app.router.add_get("/readyz", _ready)
    app.router.add_get("/metrics", _metrics)


async def _alive(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="ok\n")


async def _ready(request: web.Request) -> web.StreamResponse:
    problems = request.app[VITALS].problems
    return web.Response(text="\n".join(problems or ["ready"]) + "\n", status=503 if problems else 200)


async def _metrics(request: web.Request) -> web.StreamResponse:
    body = figures.render(await figures.count(request.app[STORE]), request.app[VITALS].findings)
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
