"""What reviewers do beside deciding: take an item or give it away, have it wait, write something down; and the record
of the whole review, to be signed.

Owns these forms' paths. The acts are `gateway.station.reviewing`'s and `gateway.station.sign_offs`'.
"""

from typing import assert_never

from aiohttp import web

from gateway.station import duties, reviewing, sign_offs
from gateway.station.decided import Decision, Unknown
from gateway.station.desk import given
from gateway.station.desk.given import Form, Incomplete
from gateway.station.desk.item_pages import item_page
from gateway.station.desk.parts import STORE
from gateway.station.desk.rendering import page
from gateway.station.reviewing import Clash, Noted
from gateway.station.sign_offs import Signed


def add_routes(app: web.Application) -> None:
    """Add this module's pages."""
    app.router.add_post("/items/{ticket}/{act:assign|hold|release|note}", _act)
    app.router.add_get("/items/{ticket}/review", _record)
    app.router.add_post("/items/{ticket}/review", _sign)


async def _act(request: web.Request) -> web.StreamResponse:
    ticket, form = request.match_info["ticket"], await given.read(request)
    decision = form.decision()
    if isinstance(decision, Incomplete):
        return await item_page(request, status=400, trouble=decision.sentence, given=form.fields)
    try:
        done = await _done(request, form, decision)
    except ValueError as error:
        return await item_page(request, status=400, trouble=str(error), given=form.fields)
    match done:
        case Noted():
            raise web.HTTPSeeOther(f"/items/{ticket}?done={request.match_info['act']}#review")
        case Clash(sentence=sentence):
            return await item_page(request, status=409, trouble=sentence, given=form.fields)
        case Unknown():
            return page(request, "missing.html", {"ticket": ticket}, status=404)
        case _:
            assert_never(done)


async def _done(request: web.Request, form: Form, decision: Decision) -> Noted | Clash | Unknown:
    ticket, store = request.match_info["ticket"], request.app[STORE]
    match request.match_info["act"]:
        case "assign":
            owner = duties.owner(form.text("owner")) if form.text("owner") else None
            return await reviewing.assign(store, ticket, owner, decision, seen=form.fields.get("was"))
        case "hold":
            return await reviewing.hold(store, ticket, decision)
        case "release":
            seen = form.number("since", -1.0, most=2.0**53)
            return await reviewing.release(store, ticket, decision, seen=seen if seen >= 0 else None)
        case _:
            return await reviewing.note(store, ticket, decision.reason, by=decision.by)


async def _record(request: web.Request) -> web.StreamResponse:
    return await _page(request)


async def _page(request: web.Request, *, status: int = 200, trouble: str | None = None) -> web.StreamResponse:
    ticket = request.match_info["ticket"]
    found = await sign_offs.find(request.app[STORE], ticket)
    if found is None:
        return page(request, "missing.html", {"ticket": ticket}, status=404)
    return page(request, "record.html", {"record": found, "trouble": trouble}, status=status)


async def _sign(request: web.Request) -> web.StreamResponse:
    ticket, form = request.match_info["ticket"], await given.read(request)
    decision = form.decision()
    if isinstance(decision, Incomplete):
        return await _page(request, status=400, trouble=decision.sentence)
    done = await sign_offs.sign(request.app[STORE], ticket, decision, seen=form.text("digest"))
    match done:
        case Signed():
            raise web.HTTPSeeOther(f"/items/{ticket}/review")
        case Clash(sentence=sentence):
            return await _page(request, status=409, trouble=sentence)
        case Unknown():
            return page(request, "missing.html", {"ticket": ticket}, status=404)
        case _:
            assert_never(done)
