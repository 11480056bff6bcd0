"""Pages, JSON and health of the desk.

Owns the paths, and how the desk is put together. Who may ask is told by `guard`.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp_jinja2
import jinja2
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from gateway.preflight.attachments import Attachment
from gateway.settings import StationSettings
from gateway.station import dossier, figures, fleet, wording
from gateway.station.desk import enclosures, sign_in, views
from gateway.station.desk.doorkeeper import Doorkeeper
from gateway.station.desk.guard import add_headers, guarded
from gateway.station.desk.parts import DOORKEEPER, NAMES, SETTINGS, STORE, VITALS, link
from gateway.station.desk.preview import preview, visible
from gateway.station.desk.rendering import page
from gateway.station.documents import listed, shown, written
from gateway.station.holding import ItemState
from gateway.station.store import Store
from gateway.station.tombstones import countdown
from gateway.station.vitals import Vitals

_HERE: Final = Path(__file__).parent
_WAITING: Final = (ItemState.HELD, ItemState.REPLAYING)
_DECIDED: Final = (ItemState.REPLAYED, ItemState.DISCARDED)
_STATES_SHOWN: Final = 20
_LARGEST_FORM: Final = 64 << 20
"""Bytes: a body that was edited, as a browser writes it into a form."""


def application(settings: StationSettings, store: Store, vitals: Vitals) -> web.Application:
    """Return the desk as an aiohttp application; raises BadKeyFile."""
    app = web.Application(middlewares=[guarded], client_max_size=_LARGEST_FORM)
    app.on_response_prepare.append(add_headers)
    app[SETTINGS] = settings
    app[STORE] = store
    app[VITALS] = vitals
    app[DOORKEEPER] = Doorkeeper(settings)
    reached_as = urlsplit(settings.desk_link).hostname or ""
    app[NAMES] = frozenset({"localhost", "127.0.0.1", "::1", settings.desk.host, reached_as})
    environment = aiohttp_jinja2.setup(
        app,
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        # Nearly every text on a page came with a ticket; done here, none of them can be forgotten.
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters.update(age=views.age, clock=wording.clock, size=views.size, words=views.words)
    app.router.add_get("/", _list_page)
    app.router.add_get("/items/{ticket}", _item_page)
    app.router.add_get(r"/items/{ticket}/{generation:\d{1,10}}/attachments/{position:\d{1,4}}", _attachment)
    app.router.add_get("/api/items", _list_document)
    app.router.add_get("/api/items/{ticket}", _item_document)
    app.router.add_get("/api/fleet", _fleet_document)
    app.router.add_get("/healthz", _alive)
    app.router.add_get("/readyz", _ready)
    app.router.add_get("/metrics", _metrics)
    sign_in.add_routes(app)
    app.router.add_static("/static", _HERE / "static")
    return app


async def _list_page(request: web.Request) -> web.StreamResponse:
    decided = request.query.get("view") == "decided"
    store, shown_states = request.app[STORE], _DECIDED if decided else _WAITING
    context = {
        "items": await dossier.find_items(store, shown_states, newest_first=decided),
        "total": (await dossier.count_items(store, shown_states)).number,
        "waiting": await dossier.count_items(store, _WAITING),
        "decided": decided,
        "fleet": [views.node_view(state) for state in await fleet.find(store, _STATES_SHOWN)],
    }
    return page(request, "list.html", context)


async def _item_page(request: web.Request) -> web.StreamResponse:
    store, ticket = request.app[STORE], request.match_info["ticket"]
    found = await dossier.find(store, ticket)
    if found is None:
        return page(request, "missing.html", {"ticket": ticket}, status=404)
    generations = []
    for generation in sorted({run.generation for run in found.runs} | {item.generation for item in found.items}):
        item = next((item for item in found.items if item.generation == generation), None)
        removal_at = countdown(found, item, request.app[SETTINGS].item_retention) if item is not None else None
        kept = wording.retained(item, removal_at, time.time()) if item is not None else None
        runs = views.run_views(found, generation)
        generations.append({"number": generation, "item": item, "runs": runs, "kept": kept})
    body = None
    attached: Sequence[Attachment] = ()
    if found.items and found.items[0].removed_at is None:
        attached = await enclosures.find(store, ticket, found.items[0].generation)
        head, charset = await dossier.find_preview(store, ticket, found.items[0].generation)
        body = preview(head, size=found.items[0].size, charset=charset)
    context = {"found": found, "generations": generations[::-1], "body": body, "attached": views.attached(attached)}
    return page(request, "item.html", context)


async def _attachment(request: web.Request) -> web.StreamResponse:
    """Hand one attachment over as bytes to save: whatever it is, no browser may take it for a page."""
    ticket, generation, position = (request.match_info[name] for name in ("ticket", "generation", "position"))
    try:
        attached = await enclosures.find(request.app[STORE], ticket, int(generation))
        found = attached[int(position)]
    except (KeyError, IndexError):
        raise web.HTTPNotFound(text="there is no such attachment\n") from None
    headers = {"Content-Disposition": enclosures.disposition(found.name)}
    return web.Response(body=found.content, content_type="application/octet-stream", headers=headers)


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
    return _json(shown(found, link(request, ticket), request.app[SETTINGS].item_retention))


async def _fleet_document(request: web.Request) -> web.StreamResponse:
    return _json({"states": [asdict(state) for state in await fleet.find(request.app[STORE])]})


async def _alive(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="ok\n")


async def _ready(request: web.Request) -> web.StreamResponse:
    problems = request.app[VITALS].problems
    return web.Response(text="\n".join(problems or ["ready"]) + "\n", status=503 if problems else 200)


async def _metrics(request: web.Request) -> web.StreamResponse:
    body = figures.render(await figures.count(request.app[STORE]))
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _json(document: dict[str, Any]) -> web.Response:
    return web.Response(text=written(document), content_type="application/json")
