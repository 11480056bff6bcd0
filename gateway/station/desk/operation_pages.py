"""Many items at once: choose, count, see what cannot be done and why, start, watch, stop.

Owns these pages' paths. Operations are `gateway.station.operations`'; the station does the work, whether or not anybody
has a page open.
"""

import time
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web

from gateway.contract.text import printable
from gateway.preflight.vocabulary import VocabularyError
from gateway.station import candidates, catalogue, operations, progress
from gateway.station.candidates import TooMany
from gateway.station.catalogue import Selection
from gateway.station.checks import Checks
from gateway.station.decided import MEANINGS, DiscardCode
from gateway.station.desk import address, deciding, given, operation_views
from gateway.station.desk.given import Form, Incomplete
from gateway.station.desk.guard import needs
from gateway.station.desk.parts import SETTINGS, STORE
from gateway.station.desk.rendering import page
from gateway.station.holding import ItemState
from gateway.station.identity import Role
from gateway.station.operations import DEFAULT_PACE, MAX_ITEMS, MAX_PACE, Kind, NotNow, Request, TokenTaken
from gateway.station.progress import Outcome
from gateway.station.selection import Filter

_SHOWN: Final = 100
_MOST_TICKED: Final = 500


def add_routes(app: web.Application) -> None:
    """Add this module's pages."""
    app.router.add_get("/operations", _list)
    app.router.add_get("/operations/new", _choose)
    app.router.add_post("/operations", _draft)
    app.router.add_get("/operations/{id}", _show)
    app.router.add_post("/operations/{id}/{change:start|stop|continue}", _change)


async def _list(request: web.Request) -> web.StreamResponse:
    store = request.app[STORE]
    found = await operations.newest(store)
    shown = [operation_views.summary(one, await progress.count(store, one.id)) for one in found[:_SHOWN]]
    return page(request, "operations.html", {"operations": shown})


@needs(Role.REVIEWER)
async def _choose(request: web.Request) -> web.StreamResponse:
    return await _dialog(
        request, address.read(request.query), _ticked(request.query.getall("ticket", []), request.query)
    )


async def _dialog(
    request: web.Request, asked: address.Address, tickets: tuple[str, ...], form: Form | None = None, **told: Any
) -> web.StreamResponse:
    counted, number, exact = None, len(tickets), True
    if not tickets:
        store, selection = request.app[STORE], asked.selection(time.time())
        held = await catalogue.count(store, _within(selection, ItemState.HELD))
        doubtful = await catalogue.count(store, replace(_within(selection, ItemState.REPLAYING), unconfirmed=True))
        counted = {Kind.REPLAY: held, Kind.RESUME: doubtful, Kind.DISCARD: held}
        number, exact = held.number + doubtful.number, held.exact and doubtful.exact
    context = {
        "tickets": tickets,
        "offers": operation_views.offers(counted),
        "number": number,
        "exact": exact,
        "asked": asked,
        "given": form.fields if form else {},
        "codes": MEANINGS,
        "pace": f"{DEFAULT_PACE:g}",
        "most": MAX_ITEMS,
        "trouble": None,
    }
    return page(request, "operation_new.html", {**context, **told}, status=400 if told else 200)


async def _draft(request: web.Request) -> web.StreamResponse:
    form, sent = await given.read(request), await given.sent_by(request)
    asked = address.read(form.fields)
    tickets = _ticked([str(ticket) for ticket in sent.getall("ticket", [])], form.fields)
    act, code = form.text("act"), form.text("code")
    if form.by is None:
        return await _dialog(request, asked, tickets, form, trouble="say who you are")
    if act not in tuple(Kind):
        return await _dialog(request, asked, tickets, form, trouble="say what is to be done")
    if act == Kind.DISCARD and code not in tuple(DiscardCode):
        return await _dialog(request, asked, tickets, form, trouble="say what kind of discard it is")
    chosen = candidates.meant(Kind(act), _chosen(asked.selection(time.time()), tickets))
    store, settings = request.app[STORE], request.app[SETTINGS]
    try:
        found = await candidates.find(
            store, Kind(act), chosen, limit=settings.replay_limit, check=Checks(settings).why_refused
        )
    except TooMany as error:
        return await _dialog(request, asked, tickets, form, trouble=str(error))
    except VocabularyError as error:
        return await _dialog(request, asked, tickets, form, trouble=f"bodies cannot be checked now: {error}")
    made = await operations.draft(
        store,
        Request(
            act=Kind(act),
            by=form.by,
            chosen=chosen.document(),
            lane=deciding.lane(form),
            code=DiscardCode(code) if act == Kind.DISCARD else None,
            pace=form.number("pace", DEFAULT_PACE, most=MAX_PACE) or DEFAULT_PACE,
            canary=int(form.number("canary", 0, most=MAX_ITEMS)),
        ),
        found,
    )
    assert not isinstance(made, TokenTaken)  # noqa: S101 - it was given no token
    raise web.HTTPSeeOther(f"/operations/{made[0].id}")


async def _show(request: web.Request) -> web.StreamResponse:
    return await _operation(request)


async def _operation(request: web.Request, *, status: int = 200, **told: Any) -> web.StreamResponse:
    store, name = request.app[STORE], request.match_info["id"]
    one = await operations.find(store, name)
    if one is None:
        raise web.HTTPNotFound(text="There is no such operation.")
    named, after = request.query.get("outcome", ""), request.query.get("after", "")
    outcomes = [Outcome(named)] if named in tuple(Outcome) else []
    position = address.whole(after)
    lines = await progress.lines(
        store, name, outcomes=outcomes, after=-1 if position is None else position, most=_SHOWN
    )
    query = {"outcome": named} if outcomes else {}
    more = urlencode({**query, "after": lines[-1].position}) if len(lines) == _SHOWN else None
    context = {
        "view": operation_views.summary(one, await progress.count(store, name)),
        "lines": lines,
        "outcome": named if outcomes else "",
        "more": more,
        "tones": operation_views.TONES,
        "trouble": None,
        "given": {},
    }
    return page(request, "operation.html", {**context, **told}, status=status)


async def _change(request: web.Request) -> web.StreamResponse:
    name, form = request.match_info["id"], await given.read(request)
    decision = form.decision()
    if isinstance(decision, Incomplete):
        return await _operation(request, status=400, trouble=decision.sentence, given=form.fields)
    store = request.app[STORE]
    match request.match_info["change"]:
        case "start":
            found = await operations.start(store, name, decision, expect=address.whole(form.text("expect")))
        case "stop":
            found = await operations.stop(store, name, decision)
        case _:
            found = await operations.proceed(store, name, decision)
    if isinstance(found, NotNow):
        return await _operation(request, status=409, trouble=found.sentence, given=form.fields)
    raise web.HTTPSeeOther(f"/operations/{name}")


def _ticked(tickets: list[str], fields: Any) -> tuple[str, ...]:
    """Return the tickets that were ticked one by one; none when all that match are meant."""
    return () if fields.get("all") else tuple(dict.fromkeys(map(printable, tickets)))[:_MOST_TICKED]


def _chosen(selection: Selection, tickets: tuple[str, ...]) -> Filter:
    return Filter(tickets=tickets) if tickets else selection.filter()


def _within(selection: Selection, state: ItemState) -> Selection:
    """Return what of a selection is in one state."""
    return replace(selection, states=[one for one in selection.states if one is state])
