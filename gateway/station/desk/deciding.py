"""A reviewer's word about one item: replay it, discard it, or hold again what was discarded. Works without a script.

Owns the forms' paths and what a person reads of each outcome. The decision itself, and that two cannot both win, is
`gateway.station.decisions`' and `gateway.station.replays`'.
"""

from typing import Final, assert_never

from aiohttp import web

from gateway.contract.topology import Lane
from gateway.station import decisions, dossier, replays
from gateway.station.decided import Barred, Decision, DiscardCode, Done, Doubtful, Taken, Unknown, Unsent
from gateway.station.desk import given
from gateway.station.desk.given import Form, Incomplete
from gateway.station.desk.item_pages import item_page
from gateway.station.desk.parts import SENDER, SETTINGS, STORE
from gateway.station.desk.rendering import page
from gateway.station.replays import Plan

Outcome = Done | Unknown | Taken | Barred | Unsent | Doubtful
_PAST: Final = {"replay": "replayed", "discard": "discarded", "restore": "restored"}


def add_routes(app: web.Application) -> None:
    """Add this module's paths."""
    app.router.add_post("/items/{ticket}/{act:replay|discard|restore}", _decide)


async def _decide(request: web.Request) -> web.StreamResponse:
    ticket, act, store = request.match_info["ticket"], request.match_info["act"], request.app[STORE]
    form = await given.read(request)
    decision = form.decision()
    if isinstance(decision, Incomplete):
        return await item_page(request, status=400, trouble=decision.sentence, given=form.fields)
    found = await dossier.find(store, ticket)
    seen = found.items[0].generation if found is not None and found.items else None
    if seen is not None and str(seen) != form.text("generation"):
        return taken(request, f"Meanwhile generation {seen} of {ticket} arrived here")
    return await told(request, await _outcome(request, form, decision, seen), form, done=_PAST[act])


async def told(request: web.Request, outcome: Outcome, form: Form, *, done: str) -> web.StreamResponse:
    """Return what a person reads of an outcome; `done` names what the item's page says when all went well."""
    ticket = request.match_info["ticket"]
    match outcome:
        case Done():
            raise web.HTTPSeeOther(f"/items/{ticket}?done={done}")
        case Unknown():
            return page(request, "missing.html", {"ticket": ticket}, status=404)
        case Taken(sentence=sentence):
            return taken(request, sentence)
        case Barred(why=why):
            return await item_page(request, status=409, trouble=f"this cannot be done: {why}", given=form.fields)
        case Unsent(why=why):
            trouble = f"not sent, the item is as it was: {why}"
            return await item_page(request, status=503, trouble=trouble, given=form.fields)
        case Doubtful(why=why):
            trouble = f"sent, but not confirmed: {why}. It shows as replaying until it is reported or sent again"
            return await item_page(request, status=503, trouble=trouble, given=form.fields)
        case _:
            assert_never(outcome)


def taken(request: web.Request, sentence: str) -> web.StreamResponse:
    """Tell the second of two that the first one's decision stands, and whose it is."""
    context = {"ticket": request.match_info["ticket"], "sentence": sentence}
    return page(request, "taken.html", context, status=409)


async def _outcome(request: web.Request, form: Form, decision: Decision, seen: int | None) -> Outcome:
    ticket, store = request.match_info["ticket"], request.app[STORE]
    sender, settings = request.app[SENDER], request.app[SETTINGS]
    match request.match_info["act"]:
        case "discard":
            named = form.text("code")
            code = DiscardCode(named) if named in tuple(DiscardCode) else DiscardCode.OTHER
            return await decisions.discard(store, ticket, decision, code, generation=seen)
        case "restore":
            return await decisions.restore(store, ticket, decision, window=settings.restore_window)
        case _ if form.text("resume"):
            return await replays.resume(store, sender, settings.topology, ticket, decision)
        case _:
            plan = Plan(lane=lane(form), generation=seen, limit=settings.replay_limit)
            return await replays.replay(store, sender, settings.topology, ticket, decision, plan=plan)


def lane(form: Form) -> Lane:
    """Return the lane that a form names; the work lane unless it is another."""
    return Lane.SUSPECTS if form.text("lane") == Lane.SUSPECTS else Lane.WORK
