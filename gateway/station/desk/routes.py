"""Pages, JSON and health of the desk.

Owns the paths and who may ask: only this machine, by a name that means this machine, so that a web page elsewhere
cannot make a reviewer's browser read the quarantine.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp_jinja2
import jinja2
import sqlalchemy as sa
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from gateway.preflight.attachments import Attachment
from gateway.settings import StationSettings
from gateway.station import dossier, figures, fleet, wording
from gateway.station.desk import enclosures, views
from gateway.station.desk.preview import preview, visible
from gateway.station.documents import listed, shown, written
from gateway.station.holding import ItemState
from gateway.station.store import Store
from gateway.station.vitals import Vitals

_HERE: Final = Path(__file__).parent
_SETTINGS: Final = web.AppKey("settings", StationSettings)
_STORE: Final = web.AppKey("store", Store)
_VITALS: Final = web.AppKey("vitals", Vitals)
_NAMES: Final = web.AppKey("names", frozenset[str])

_WAITING: Final = (ItemState.HELD, ItemState.REPLAYING)
_DECIDED: Final = (ItemState.REPLAYED, ItemState.DISCARDED)
_STATES_SHOWN: Final = 20
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(settings: StationSettings, store: Store, vitals: Vitals) -> web.Application:
    """Return the desk as an aiohttp application."""
    app = web.Application(middlewares=[_guarded, _store_may_be_down])
    app[_SETTINGS] = settings
    app[_STORE] = store
    app[_VITALS] = vitals
    reached_as = urlsplit(settings.desk_link).hostname or ""
    app[_NAMES] = frozenset({"localhost", "127.0.0.1", "::1", settings.desk.host, reached_as})
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
    app.router.add_static("/static", _HERE / "static")
    return app


async def _list_page(request: web.Request) -> web.StreamResponse:
    decided = request.query.get("view") == "decided"
    store, shown_states = request.app[_STORE], _DECIDED if decided else _WAITING
    context = {
        "items": await dossier.find_items(store, shown_states, newest_first=decided),
        "total": (await dossier.count_items(store, shown_states)).number,
        "waiting": await dossier.count_items(store, _WAITING),
        "decided": decided,
        "fleet": [views.node_view(state) for state in await fleet.find(store, _STATES_SHOWN)],
    }
    return aiohttp_jinja2.render_template("list.html", request, context)


async def _item_page(request: web.Request) -> web.StreamResponse:
    store, ticket = request.app[_STORE], request.match_info["ticket"]
    found = await dossier.find(store, ticket)
    if found is None:
        return aiohttp_jinja2.render_template("missing.html", request, {"ticket": ticket}, status=404)
    generations = []
    for generation in sorted({run.generation for run in found.runs} | {item.generation for item in found.items}):
        item = next((item for item in found.items if item.generation == generation), None)
        generations.append({"number": generation, "item": item, "runs": views.run_views(found, generation)})
    body = None
    attached: Sequence[Attachment] = ()
    if found.items:
        attached = await enclosures.find(store, ticket, found.items[0].generation)
        head, charset = await dossier.find_preview(store, ticket, found.items[0].generation)
        body = preview(head, size=found.items[0].size, charset=charset)
    context = {"found": found, "generations": generations[::-1], "body": body, "attached": views.attached(attached)}
    return aiohttp_jinja2.render_template("item.html", request, context)


async def _attachment(request: web.Request) -> web.StreamResponse:
    """Hand one attachment over as bytes to save: whatever it is, no browser may take it for a page."""
    ticket, generation, position = (request.match_info[name] for name in ("ticket", "generation", "position"))
    try:
        attached = await enclosures.find(request.app[_STORE], ticket, int(generation))
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
    found = await dossier.find_items(request.app[_STORE], states)
    counted = await dossier.count_items(request.app[_STORE], states)
    return _json({"total": counted.number, "items": [listed(item, _link(request, item.ticket)) for item in found]})


async def _item_document(request: web.Request) -> web.StreamResponse:
    ticket = request.match_info["ticket"]
    found = await dossier.find(request.app[_STORE], ticket)
    if found is None:
        raise web.HTTPNotFound(text="no report about this ticket ever arrived")
    return _json(shown(found, _link(request, ticket)))


async def _fleet_document(request: web.Request) -> web.StreamResponse:
    return _json({"states": [asdict(state) for state in await fleet.find(request.app[_STORE])]})


async def _alive(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="ok\n")


async def _ready(request: web.Request) -> web.StreamResponse:
    problems = request.app[_VITALS].problems
    return web.Response(text="\n".join(problems or ["ready"]) + "\n", status=503 if problems else 200)


async def _metrics(request: web.Request) -> web.StreamResponse:
    body = figures.render(await figures.count(request.app[_STORE]))
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


@web.middleware
async def _guarded(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        named = urlsplit(f"//{request.host}").hostname
    except ValueError:
        named = None
    if named not in request.app[_NAMES]:
        return web.Response(status=421, text="this desk answers only under its own name\n", headers=_HEADERS)
    try:
        response = await handler(request)
    except web.HTTPException as answer:
        answer.headers.update(_HEADERS)
        raise
    response.headers.update(_HEADERS)
    return response


@web.middleware
async def _store_may_be_down(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except sa.exc.SQLAlchemyError as error:
        raise web.HTTPServiceUnavailable(text="the store cannot be read\n", headers={"Retry-After": "5"}) from error


def _json(document: dict[str, Any]) -> web.Response:
    return web.Response(text=written(document), content_type="application/json")


def _link(request: web.Request, ticket: str) -> str:
    return f"{request.app[_SETTINGS].desk_link}/items/{ticket}"
