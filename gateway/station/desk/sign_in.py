"""Signing in and out, and the page that tells somebody what he may do.

Owns the session's cookie. A key is read from the form and handed on; it is kept nowhere and never shown again.
"""

from typing import Final

from aiohttp import web

from gateway.station.desk import given
from gateway.station.desk.guard import needs, session_cookie, under_tls
from gateway.station.desk.parts import DOORKEEPER, who
from gateway.station.desk.rendering import page
from gateway.station.identity import Role

ABILITIES: Final = (
    ("read everything, bodies included; follow progress; export", Role.READER),
    ("replay, edit, discard, restore, hold, assign and note; let refused requests in", Role.REVIEWER),
    ("give attempts back to everybody's items after an incident, and whatever else concerns all at once", Role.ADMIN),
)


def add_routes(app: web.Application) -> None:
    """Add this module's pages."""
    app.router.add_get("/sign-in", _form)
    app.router.add_post("/sign-in", _sign_in)
    app.router.add_post("/sign-out", _sign_out)
    app.router.add_get("/permissions", _permissions)


async def _form(request: web.Request) -> web.StreamResponse:
    if not request.app[DOORKEEPER].keyed:
        raise web.HTTPSeeOther("/")
    context = {"to": local(request.query.get("to", "/")), "wrong": False}
    return page(request, "sign_in.html", context)


async def _sign_in(request: web.Request) -> web.StreamResponse:
    form = await given.sent_by(request)
    to, token = local(str(form.get("to", "/"))), request.app[DOORKEEPER].sign_in(str(form.get("key", "")))
    if token is None:
        return page(request, "sign_in.html", {"to": to, "wrong": True}, status=401)
    answer = web.HTTPSeeOther(to)
    answer.set_cookie(
        session_cookie(request),
        token,
        max_age=int(request.app[DOORKEEPER].sessions.lifetime),
        path="/",
        httponly=True,
        secure=under_tls(request),
        samesite="Strict",
    )
    raise answer


@needs(Role.READER)
async def _sign_out(request: web.Request) -> web.StreamResponse:
    name = session_cookie(request)
    request.app[DOORKEEPER].sessions.close(request.cookies.get(name, ""))
    answer = web.HTTPSeeOther("/sign-in")
    answer.del_cookie(name, path="/", httponly=True, secure=under_tls(request), samesite="Strict")
    raise answer


async def _permissions(request: web.Request) -> web.StreamResponse:
    identity = who(request)
    context = {
        "abilities": [(what, role, identity.may(role)) for what, role in ABILITIES],
        "able": {role: request.app[DOORKEEPER].who_may(role) for role in Role},
        "hours": request.app[DOORKEEPER].sessions.lifetime / 3600,
    }
    return page(request, "permissions.html", context)


def local(path: str) -> str:
    """Return a path of this desk; anything that could lead elsewhere becomes the first page."""
    elsewhere = not path.startswith("/") or path.startswith("//") or "\\" in path or not path.isprintable()
    return "/" if elsewhere else path
