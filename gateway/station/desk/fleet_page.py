"""Fleet: every node as it last said that it is, what it has, and what it said of dependencies and builds.

Owns this page's path. The nodes themselves are asked nothing.
"""

import time

from aiohttp import web

from gateway.station import fleet, roll_call
from gateway.station.desk import fleet_views
from gateway.station.desk.parts import STORE
from gateway.station.desk.rendering import page


def add_routes(app: web.Application) -> None:
    """Add this module's page."""
    app.router.add_get("/fleet", _fleet)


async def _fleet(request: web.Request) -> web.StreamResponse:
    states, now = await fleet.find(request.app[STORE]), time.time()
    nodes = fleet_views.nodes(states, now)
    lanes = roll_call.lanes([view.node for view in nodes])
    context = {"nodes": nodes, "lanes": lanes, "groups": fleet_views.said(states, now), "moving": bool(nodes)}
    return page(request, "fleet.html", context)
