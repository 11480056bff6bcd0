"""Items: the list under any selection, one item with all that is known of it, its body and attachments.

Owns these pages' paths and which questions each asks. What is shown is said by `views`.
"""

import asyncio
import time
from dataclasses import replace
from typing import Any, Final

from aiohttp import web

from gateway.contract.outcomes import Outcome
from gateway.depot import ContentLost, DepotDown
from gateway.settings import StationSettings
from gateway.station import catalogue, dossier, escalations, explaining, letterhead, lineage
from gateway.station.decided import MEANINGS
from gateway.station.desk import address, enclosures, given, outside, reveals, timeline, views
from gateway.station.desk.given import Incomplete
from gateway.station.desk.guard import needs
from gateway.station.desk.parts import ALMANAC, HOLDER, REVEALS, SETTINGS, STORE
from gateway.station.desk.preview import preview
from gateway.station.desk.rendering import page
from gateway.station.identity import Role
from gateway.station.lineage import Descent

_GENERATION: Final = r"{generation:\d{1,10}}"
_DONE: Final = {
    "replayed": "It was sent again, and the broker has confirmed it.",
    "discarded": "It is discarded. It can be restored for a while; its body and history stay here.",
    "restored": "It is held again, as it was.",
    "assign": "It is given to somebody else.",
    "hold": "It is on hold: nobody decides about it until it is released.",
    "release": "It is on hold no more.",
    "note": "It is written down.",
    "revealed": "That you looked at the body is on record.",
}


def add_routes(app: web.Application) -> None:
    """Add this module's pages."""
    app.router.add_get("/items", _list)
    app.router.add_get("/discarded", _discarded)
    app.router.add_get("/items/{ticket}", _item)
    app.router.add_get(f"/items/{{ticket}}/{_GENERATION}/body", _body)
    app.router.add_get(rf"/items/{{ticket}}/{_GENERATION}/attachments/{{position:\d{{1,4}}}}", _attachment)
    app.router.add_post(f"/items/{{ticket}}/{_GENERATION}/reveal", _reveal)


async def _list(request: web.Request) -> web.StreamResponse:
    return await _listed(request, "items.html", address.read(request.query))


async def _discarded(request: web.Request) -> web.StreamResponse:
    asked = replace(address.read(request.query, state="discarded"), state="discarded")
    newest_first = request.query.get("order") != "oldest"
    return await _listed(request, "discarded.html", replace(asked, newest_first=newest_first))


async def _listed(request: web.Request, template: str, asked: address.Address) -> web.StreamResponse:
    store, selection = request.app[STORE], asked.selection(time.time())
    found, counted, choices = await asyncio.gather(
        catalogue.find(store, selection, newest_first=asked.newest_first, after=asked.after, before=asked.before),
        catalogue.count(store, selection),
        request.app[ALMANAC].choices.get(),
    )
    context = {
        "asked": asked,
        "listing": views.listing(found, counted, asked),
        "choices": {**choices, "outcome": [outcome.value for outcome in Outcome], "state": list(address.STATES)},
        "ages": address.AGES,
        "reviews": address.REVIEWS,
    }
    return page(request, template, context)


async def _item(request: web.Request) -> web.StreamResponse:
    return await item_page(request)


async def item_page(request: web.Request, *, status: int = 200, **extra: Any) -> web.StreamResponse:
    """Return the page of the ticket that the path names; `extra` is what its forms have to say besides."""
    store, ticket = request.app[STORE], request.match_info["ticket"]
    found = await dossier.find(store, ticket)
    if found is None:
        return page(request, "missing.html", {"ticket": ticket}, status=404)
    context: dict[str, Any] = {
        "found": found,
        "generations": timeline.generations(found, request.app[SETTINGS].item_retention, time.time()),
        "descents": {one.generation: one for one in await lineage_of(request, ticket)},
        "escalations": outside.told(await escalations.find(store, ticket)),
        "codes": MEANINGS,
        "why": await explaining.explain(store, ticket),
        "restorable": views.restorable(found, request.app[SETTINGS].restore_window, time.time()),
        "body": None,
        "hidden": False,
        "attached": [],
        "headers": [],
        "done": _DONE.get(request.query.get("done", "")),
        "trouble": None,
        "given": {},
    }
    if found.items and found.items[0].removed_at is None:
        generation = found.items[0].generation
        context["headers"] = views.headers(await letterhead.find(store, ticket, generation))
        context["hidden"] = not may_see(request, ticket, generation)
        if not context["hidden"]:
            context["attached"] = views.attached(await enclosures.find(store, ticket, generation))
            head, charset = await dossier.find_preview(store, ticket, generation)
            context["body"] = preview(head, size=found.items[0].size, charset=charset)
    return page(request, "item.html", {**context, **extra}, status=status)


async def _body(request: web.Request) -> web.StreamResponse:
    """Hand the body over as the bytes that came, to save: whatever it is, no browser may take it for a page."""
    ticket, generation = _named(request)
    try:
        content = await dossier.find_content(request.app[STORE], ticket, generation)
    except KeyError:
        raise web.HTTPNotFound(text="There is no such body.") from None
    headers = {"Content-Disposition": enclosures.disposition(f"{ticket}-{generation}.body")}
    return web.Response(body=content.body, content_type="application/octet-stream", headers=headers)


async def _attachment(request: web.Request) -> web.StreamResponse:
    """Hand one attachment over in the same way."""
    ticket, generation = _named(request)
    try:
        attached = await enclosures.find(request.app[STORE], ticket, generation)
        found = attached[int(request.match_info["position"])]
    except (KeyError, IndexError):
        raise web.HTTPNotFound(text="There is no such attachment.") from None
    try:
        content = await enclosures.content_of(found, request.app[SETTINGS].depot)
    except ContentLost as error:
        raise web.HTTPGone(text=f"It is not kept any more: {error}.") from error
    except DepotDown as error:
        headers = {"Retry-After": "5"}
        raise web.HTTPServiceUnavailable(text=f"Attachments cannot be read now: {error}.", headers=headers) from error
    headers = {"Content-Disposition": enclosures.disposition(found.name)}
    return web.Response(body=content, content_type="application/octet-stream", headers=headers)


@needs(Role.READER)
async def _reveal(request: web.Request) -> web.StreamResponse:
    """Put on record that somebody looks at a body, and why; then show it to that person for a while."""
    ticket, generation = request.match_info["ticket"], int(request.match_info["generation"])
    decision = (await given.read(request)).decision()
    if isinstance(decision, Incomplete):
        return await item_page(request, status=400, trouble=decision.sentence)
    if not await reveals.note(request.app[STORE], ticket, generation, by=decision.by, reason=decision.reason):
        raise web.HTTPNotFound(text="There is no such body.")
    request.app[REVEALS].grant(request[HOLDER], ticket, generation)
    raise web.HTTPSeeOther(f"/items/{ticket}?done=revealed#body")


def _named(request: web.Request) -> tuple[str, int]:
    ticket, generation = request.match_info["ticket"], int(request.match_info["generation"])
    must_be_seen(request, ticket, generation)
    return ticket, generation


def must_be_seen(request: web.Request, ticket: str, generation: int) -> None:
    """Raise HTTPForbidden unless whoever asks may see this body now."""
    if not may_see(request, ticket, generation):
        raise web.HTTPForbidden(text="Looking at a body is put on record here: ask for it on the item's page.")


async def lineage_of(request: web.Request, ticket: str) -> list[Descent]:
    """Return a ticket's replays; what an edit changed is text of a body, and shown to those who may see that."""
    found = await lineage.find(request.app[STORE], ticket)
    return [one if may_see(request, ticket, one.replayed_from) else replace(one, difference=None) for one in found]


def may_see(request: web.Request, ticket: str, generation: int) -> bool:
    """Say whether whoever asks may see the body of an item, and what it brought along."""
    settings: StationSettings = request.app[SETTINGS]
    return not settings.desk_reveal or request.app[REVEALS].has(request[HOLDER], ticket, generation)
