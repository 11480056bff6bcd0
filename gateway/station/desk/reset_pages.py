"""Attempts given back after an incident: say which items, see how many and which, say who and why.

Owns this page's path. What is given back, and how, is `gateway.station.pardons`'s; what is in quarantine already is
replayed from the list of items.
"""

import argparse
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web

from gateway.contract.outcomes import CHARGED, Outcome
from gateway.station import pardons
from gateway.station.arguments import moment
from gateway.station.desk import address, given
from gateway.station.desk.given import Form, Incomplete
from gateway.station.desk.guard import needs
from gateway.station.desk.parts import STORE
from gateway.station.desk.rendering import page
from gateway.station.identity import Role
from gateway.station.pardons import Candidate, Miscounted, NoFence, Selection
from gateway.station.selection import MAX_TEXT

PATH: Final = "/operations/reset"
_SHOWN: Final = 100


def add_routes(app: web.Application) -> None:
    """Add this module's page; before `/operations/{id}`, which would take its name for an operation's."""
    app.router.add_get(PATH, _choose)
    app.router.add_post(PATH, _reset)


async def _choose(request: web.Request) -> web.StreamResponse:
    asked = {name: value.strip() for name, value in request.query.items()}
    outcomes = _charged(request.query.getall("outcome", []))
    if "count" not in asked:
        return _shown(request, asked, outcomes)
    return await _counted(request, asked, outcomes)


async def _counted(
    request: web.Request, asked: dict[str, str], outcomes: tuple[str, ...], status: int = 200, **told: Any
) -> web.StreamResponse:
    try:
        found = await pardons.in_flight(request.app[STORE], _selection(asked, outcomes))
    except (NoFence, argparse.ArgumentTypeError) as error:
        return _shown(request, asked, outcomes, status=status, **{"trouble": str(error), **told})
    return _shown(request, asked, outcomes, status=status, found=found, **told)


def _shown(
    request: web.Request,
    asked: dict[str, str],
    outcomes: tuple[str, ...],
    *,
    status: int = 200,
    found: list[Candidate] | None = None,
    **told: Any,
) -> web.StreamResponse:
    context = {
        "asked": {**asked, **_fixed(asked)},
        "outcomes": outcomes,
        "charged": sorted(CHARGED),
        "found": None if found is None else found[:_SHOWN],
        "number": len(found or ()),
        "given": {},
        "trouble": None,
        "done": address.whole(request.query.get("done", "")),
    }
    return page(request, "reset.html", {**context, **told}, status=status)


@needs(Role.ADMIN)
async def _reset(request: web.Request) -> web.StreamResponse:
    form, sent = await given.read(request), await given.sent_by(request)
    asked = {name: form.text(name) for name in ("kind", "node", "since", "until")}
    outcomes = _charged([str(one) for one in sent.getall("outcome", [])])
    expect, decision = address.whole(form.text("expect")), form.decision()
    if expect is None:
        decision = Incomplete(sentence="count first: what is given back is what was seen to be counted")
    if isinstance(decision, Incomplete):
        return await _not_done(request, form, asked, outcomes, decision.sentence, status=400)
    try:
        done = await pardons.reset(request.app[STORE], _selection(asked, outcomes), decision, expect=expect)
    except (NoFence, argparse.ArgumentTypeError) as error:
        return await _not_done(request, form, asked, outcomes, str(error), status=409)
    if isinstance(done, Miscounted):
        return await _not_done(request, form, asked, outcomes, done.sentence, status=409)
    raise web.HTTPSeeOther(f"{PATH}?done={len(done.marked)}")


async def _not_done(
    request: web.Request, form: Form, asked: dict[str, str], outcomes: tuple[str, ...], trouble: str, *, status: int
) -> web.StreamResponse:
    return await _counted(request, asked, outcomes, status, trouble=trouble, given=form.fields)


def _selection(asked: dict[str, str], outcomes: tuple[str, ...]) -> Selection:
    """Return which items are meant; raises argparse.ArgumentTypeError for a moment that is none."""
    return Selection(
        kind=asked.get("kind", "")[:MAX_TEXT] or None,
        outcomes=outcomes,
        node=asked.get("node", "")[:MAX_TEXT] or None,
        since=moment(asked["since"]) if asked.get("since") else None,
        until=moment(asked["until"]) if asked.get("until") else None,
    )


def _fixed(asked: dict[str, str]) -> dict[str, str]:
    """Return the moments that are so long ago as dates, so that what was counted stays what is meant."""
    found = {}
    for name in ("since", "until"):
        try:
            at = moment(asked.get(name, ""))
        except argparse.ArgumentTypeError:
            continue
        found[name] = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return found


def _charged(named: list[str]) -> tuple[str, ...]:
    return tuple(Outcome(one) for one in dict.fromkeys(named) if one in CHARGED)
