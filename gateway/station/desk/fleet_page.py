"""Fleet: what every node last said of itself.

Owns this page's path. The nodes themselves are asked nothing.
"""

from aiohttp import web

from gateway.station import fleet
from gateway.station.desk import views
from gateway.station.desk.parts import STORE
from gateway.station.desk.rendering import page


def add_routes(app: web.Application) -> None:
    """Add this module's page."""
    app.router.add_get("/fleet", _fleet)


async def _fleet(request: web.Request) -> web.StreamResponse:
    return page(request, "fleet.html", {"groups": views.fleet(await fleet.find(request.app[STORE]))})
