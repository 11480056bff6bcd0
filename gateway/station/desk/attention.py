"""The first page: what needs a person now, in figures, then what came last.

Owns which figures those are and in which order. A figure that is nothing is shown calm, never left out: people learn
where to look.
"""

import asyncio
import time
from typing import Final

from aiohttp import web

from gateway.station import catalogue, fleet
from gateway.station.catalogue import Selection
from gateway.station.desk import charts, views
from gateway.station.desk.almanac import DAYS
from gateway.station.desk.parts import ALMANAC, STORE, VITALS
from gateway.station.desk.rendering import page

_NEWEST: Final = 8


def add_routes(app: web.Application) -> None:
    """Add this module's page."""
    app.router.add_get("/", _attention)


async def _attention(request: web.Request) -> web.StreamResponse:
    store, now = request.app[STORE], time.time()
    newest, counted, oldest, states, loads, losses = await asyncio.gather(
        catalogue.find(store, Selection(), newest_first=True, limit=_NEWEST),
        catalogue.count(store, Selection()),
        catalogue.find(store, Selection(), limit=1),
        fleet.find(store),
        request.app[ALMANAC].loads.get(),
        request.app[ALMANAC].deaths.get(),
    )
    context = {
        "figures": views.figures(counted, oldest.entries[0] if oldest.entries else None, states, loads, now),
        "findings": request.app[VITALS].findings,
        "loads": loads,
        "losses": losses,
        "newest": newest.entries,
        "charts": [
            charts.stacked("Quarantined", "items", await request.app[ALMANAC].quarantines.get()),
            charts.stacked("Runs lost to a death", "runs", await request.app[ALMANAC].losses.get()),
        ],
        "days": DAYS,
    }
    return page(request, "attention.html", context)
