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
from gateway.station.desk import charts, outside, views
from gateway.station.desk.almanac import DAYS
from gateway.station.desk.parts import ALMANAC, STORE, VITALS
from gateway.station.desk.rendering import page
from gateway.station.holding import ItemState

_NEWEST: Final = 8
_PRESSING: Final = 5


def add_routes(app: web.Application) -> None:
    """Add this module's page."""
    app.router.add_get("/", _attention)


async def _attention(request: web.Request) -> web.StreamResponse:
    store, now = request.app[STORE], time.time()
    almanac = request.app[ALMANAC]
    newest, counted, doubtful, oldest, states = await asyncio.gather(
        catalogue.find(store, Selection(), newest_first=True, limit=_NEWEST),
        catalogue.count(store, Selection()),
        catalogue.count(store, Selection(states=(ItemState.REPLAYING,), unconfirmed=True)),
        catalogue.find(store, Selection(), limit=1),
        fleet.find(store),
    )
    loads, losses, (handed_over, number), unsent = await asyncio.gather(
        almanac.loads.get(), almanac.deaths.get(), almanac.escalations.get(), almanac.unsent.get()
    )
    context = {
        "figures": views.figures(counted, oldest.entries[0] if oldest.entries else None, states, loads, now),
        "findings": request.app[VITALS].findings,
        "doubtful": doubtful.number,
        "loads": loads,
        "losses": losses,
        "handed_over": outside.pressing(handed_over, _PRESSING),
        "all_handed_over": number,
        "unsent": unsent,
        "newest": newest.entries,
        "charts": [
            charts.stacked("Quarantined", "items", await almanac.quarantines.get()),
            charts.stacked("Runs lost to a death", "runs", await almanac.losses.get()),
        ],
        "days": DAYS,
    }
    return page(request, "attention.html", context)
