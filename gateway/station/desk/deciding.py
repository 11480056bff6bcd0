"""A reviewer's word about one item: replay it, or discard it. Works without a script.

Owns the forms' paths and what a person reads of each outcome. The decision itself, and that two cannot both win, is
`gateway.station.decisions`' and `gateway.station.replays`'.
"""

from typing import Final, assert_never

from aiohttp import web

from gateway.station import decisions, dossier, replays
from gateway.station.decided import Barred, Decision, Done, Doubtful, Taken, Unknown, Unsent
from gateway.station.desk.item_pages import item_page
from gateway.station.desk.parts import SENDER, SETTINGS, STORE, who
from gateway.station.desk.rendering import page
from gateway.station.replays import Plan

_PAST: Final = {"replay": "replayed", "discard": "discarded"}


def add_routes(app: web.Application) -> None:
    """Add this module's paths."""
    app.router.add_post("/items/{ticket}/{act:replay|discard}", _decide)


async def _decide(request: web.Request) -> web.StreamResponse:
    ticket, act, store = request.match_info["ticket"], request.match_info["act"], request.app[STORE]
    form = await request.post()
    given = {name: str(form.get(name, "")).strip() for name in ("by", "reason")}
    try:
        decision = Decision(by=who(request).actor(given["by"]), reason=given["reason"])
    except ValueError as error:
        return await item_page(request, status=400, trouble=str(error), given=given)
    if not decision.reason:
        return await item_page(request, status=400, trouble="say why: it is what the next one reads", given=given)
    found = await dossier.find(store, ticket)
    if found is not None and found.items and str(found.items[0].generation) != form.get("generation"):
        return _taken(request, f"Meanwhile generation {found.items[0].generation} of {ticket} arrived here.")
    seen = found.items[0].generation if found is not None and found.items else None
    outcome = await _outcome(request, decision, seen, resume="resume" in form)
    match outcome:
        case Done():
            raise web.HTTPSeeOther(f"/items/{ticket}?done={_PAST[act]}")
        case Unknown():
            return page(request, "missing.html", {"ticket": ticket}, status=404)
        case Taken(sentence=sentence):
            return _taken(request, sentence)
        case Barred(why=why):
            return await item_page(request, status=409, trouble=f"this cannot be done: {why}", given=given)
        case Unsent(why=why):
            return await item_page(request, status=503, trouble=f"not sent, the item is as it was: {why}", given=given)
        case Doubtful(why=why):
            told = f"sent, but not confirmed: {why}. It shows as replaying until it is reported or sent again"
            return await item_page(request, status=503, trouble=told, given=given)
        case _:
            assert_never(outcome)


async def _outcome(
    request: web.Request, decision: Decision, seen: int | None, *, resume: bool
) -> Done | Unknown | Taken | Barred | Unsent | Doubtful:
    ticket, store = request.match_info["ticket"], request.app[STORE]
    sender, settings = request.app[SENDER], request.app[SETTINGS]
    if request.match_info["act"] == "discard":
        return await decisions.discard(store, ticket, decision, generation=seen)
    if resume:
        return await replays.resume(store, sender, settings.topology, ticket, decision)
    plan = Plan(generation=seen, limit=settings.replay_limit)
    return await replays.replay(store, sender, settings.topology, ticket, decision, plan=plan)


def _taken(request: web.Request, sentence: str) -> web.StreamResponse:
    """Tell the second of two that the first one's decision stands, and whose it is."""
    context = {"ticket": request.match_info["ticket"], "sentence": sentence}
    return page(request, "taken.html", context, status=409)
