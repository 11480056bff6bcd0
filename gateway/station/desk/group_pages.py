"""Groups: items that died of the same, what they share, and what somebody wrote down about them.

Owns these pages' paths. What a cause is, and what its items share, is told by `gateway.station.groups` and
`gateway.station.comparing`.
"""

from typing import assert_never

from aiohttp import web

from gateway.station import comparing, groups, reviewing
from gateway.station.decided import Unknown
from gateway.station.desk import given
from gateway.station.desk.parts import ALMANAC, STORE
from gateway.station.desk.rendering import page
from gateway.station.groups import Group
from gateway.station.reviewing import Clash, Noted


def add_routes(app: web.Application) -> None:
    """Add this module's pages."""
    app.router.add_get("/groups", _list)
    app.router.add_get("/groups/{group}", _show)
    app.router.add_post("/groups/{group}/notes", _note)


async def _list(request: web.Request) -> web.StreamResponse:
    found = await request.app[ALMANAC].groups.get()
    return page(request, "groups.html", {"groups": found, "most": groups.MAX_LISTED})


async def _show(request: web.Request) -> web.StreamResponse:
    return await _group(request, await _found(request))


async def _group(
    request: web.Request, found: Group, *, status: int = 200, trouble: str | None = None
) -> web.StreamResponse:
    store = request.app[STORE]
    context = {
        "group": found,
        "comparison": await comparing.of_group(store, found.id, found.kind),
        "relatives": await groups.relatives(store, found),
        "notes": await groups.find_notes(store, group=found.id),
        "trouble": trouble,
    }
    return page(request, "group.html", context, status=status)


async def _note(request: web.Request) -> web.StreamResponse:
    found, form = await _found(request), await given.read(request)
    text = form.text("text")
    if form.by is None or not text:
        return await _group(request, found, status=400, trouble="say who you are, and what is to be written down")
    done = await reviewing.note_group(request.app[STORE], found.id, text, by=form.by)
    match done:
        case Noted():
            raise web.HTTPSeeOther(f"/groups/{found.id}#notes")
        case Clash(sentence=sentence):
            return await _group(request, found, status=409, trouble=sentence)
        case Unknown():
            raise web.HTTPNotFound(text="There is no such group.")
        case _:
            assert_never(done)


async def _found(request: web.Request) -> Group:
    found = await groups.find_one(request.app[STORE], request.match_info["group"])
    if found is None:
        raise web.HTTPNotFound(text="There is no such group.")
    return found
