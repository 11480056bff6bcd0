"""Refusals at the door: listed, grouped, judged under other limits, and let in anyway.

Owns these pages' paths. The judgement is `gateway.station.what_if`'s, the pass `gateway.station.passes`'s.
"""

import asyncio
import time
from typing import Any, Final

from aiohttp import web

from gateway.contract import kind_limits, rules
from gateway.contract.rules import Rule
from gateway.station import passes, rejections, trends, what_if
from gateway.station.desk import charts, given, views
from gateway.station.desk.given import Incomplete
from gateway.station.desk.parts import STORE
from gateway.station.desk.rendering import page
from gateway.station.passes import Given, NotGiven
from gateway.station.rejections import Selection

_HOUR: Final = 3600
_HOURS: Final = 24
_SHOWN: Final = 100
_SINCE: Final = {"": "at any time", "1h": "in the last hour", "24h": "in the last day", "7d": "in the last week"}
_SECONDS: Final = {"1h": 3600.0, "24h": 86400.0, "7d": 7 * 86400.0}


def add_routes(app: web.Application) -> None:
    """Add this module's pages."""
    app.router.add_get("/refusals", _list)
    app.router.add_post("/refusals/{request}/admit", _admit)


async def _list(request: web.Request) -> web.StreamResponse:
    return await _page(request)


async def _page(request: web.Request, *, status: int = 200, **extra: Any) -> web.StreamResponse:
    store, asked = request.app[STORE], {name: value.strip() for name, value in request.query.items()}
    selection = _selection(asked, time.time())
    (found, number), trend = await asyncio.gather(
        rejections.find(store, selection),
        trends.refusals(store, trends.last(time.time(), width=_HOUR, parts=_HOURS)),
    )
    outlook, mistaken = None, None
    if asked.get("if"):
        try:
            supposition = what_if.suppose([part.strip() for part in asked["if"].split(",") if part.strip()])
            outlook = await rejections.outlook(store, selection, supposition)
        except ValueError as error:
            mistaken = str(error)
    context = {
        "asked": asked,
        "refusals": [views.refusal(one) for one in found[:_SHOWN]],
        "number": number,
        "groups": await rejections.group(store, selection, ("rule", "client"))
        if asked.get("view") == "groups"
        else None,
        "outlook": None if outlook is None else views.outlook(outlook),
        "mistaken": mistaken,
        "chart": charts.stacked("Refused in the last day", "refusals", trend),
        "rules": sorted(Rule),
        "since": _SINCE,
        "limits": (*kind_limits.NUMBERS, *sorted(rules.SOFT)),
        "trouble": None,
        "admitted": request.query.get("admitted"),
    }
    return page(request, "refusals.html", {**context, **extra}, status=status)


async def _admit(request: web.Request) -> web.StreamResponse:
    refused, decision = request.match_info["request"], (await given.read(request)).decision()
    if isinstance(decision, Incomplete):
        return await _page(request, status=400, trouble=decision.sentence)
    match await passes.give(request.app[STORE], refused, by=decision.by, reason=decision.reason):
        case Given(granted=granted):
            raise web.HTTPSeeOther(f"/refusals?admitted={granted.id}")
        case NotGiven(sentence=sentence):
            return await _page(request, status=409, trouble=f"not let in: {sentence}")


def _selection(asked: dict[str, str], now: float) -> Selection:
    since = _SECONDS.get(asked.get("since", ""))
    rule = asked.get("rule")
    return Selection(
        kind=asked.get("kind") or None,
        client=asked.get("client") or None,
        rule=rule if rule in tuple(Rule) else None,
        since=None if since is None else now - since,
    )
