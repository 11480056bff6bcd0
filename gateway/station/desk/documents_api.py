"""The first JSON documents of the station: items, one ticket, what nodes say of themselves.

Owns `/api/`. Says what the command line says with `--json`, and changes nothing.
"""

import time
from typing import Any, Final

from aiohttp import web

from gateway.station import dossier, escalations, fleet
from gateway.station.desk import enclosures
from gateway.station.desk.item_pages import lineage_of, may_see
from gateway.station.desk.parts import SETTINGS, STORE, link
from gateway.station.documents import escalations_of, listed, of_fleet, shown, written
from gateway.station.holding import ItemState

_WAITING: Final = (ItemState.HELD, ItemState.REPLAYING)


def add_routes(app: web.Application) -> None:
    """Add this module's paths."""
    app.router.add_get("/api/items", _list_document)
    app.router.add_get("/api/items/{ticket}", _item_document)
    app.router.add_get("/api/fleet", _fleet_document)


async def _list_document(request: web.Request) -> web.StreamResponse:
    wanted = request.query.getall("state", [])
    try:
        states = tuple(ItemState(state) for state in wanted) or _WAITING
    except ValueError as error:
        raise web.HTTPBadRequest(text=f"state: {error}") from error
    found = await dossier.find_items(request.app[STORE], states)
    counted = await dossier.count_items(request.app[STORE], states)
    return _json({"total": counted.number, "items": [listed(item, link(request, item.ticket)) for item in found]})


async def _item_document(request: web.Request) -> web.StreamResponse:
    ticket = request.match_info["ticket"]
    found = await dossier.find(request.app[STORE], ticket)
    if found is None:
        raise web.HTTPNotFound(text="no report about this ticket ever arrived")
    attached: list[dict[str, Any]] = []
    if found.items and may_see(request, ticket, found.items[0].generation):
        attached = enclosures.listed(await enclosures.of(request.app[STORE], found))
    descents = await lineage_of(request, ticket)
    keep = request.app[SETTINGS].item_retention
    handed_over = await escalations.find(request.app[STORE], ticket)
    document = shown(found, link(request, ticket), keep, attached=attached, lineage=descents)
    return _json({**document, **escalations_of(handed_over)})


async def _fleet_document(request: web.Request) -> web.StreamResponse:
    return _json(of_fleet(await fleet.find(request.app[STORE]), time.time()))


def _json(document: dict[str, Any]) -> web.Response:
    return web.Response(text=written(document), content_type="application/json")
