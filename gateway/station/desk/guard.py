"""What stands before every page and document of the desk: its own name, who asks, what that person may do, and whether
a change really came from one of our forms.

Owns the headers of every answer and how a refusal is told, as a page to people and as a problem document (RFC 9457) to
programs. Decides nothing about items.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, TypeVar
from urllib.parse import quote, urlsplit
from uuid import uuid4

import sqlalchemy as sa
from aiohttp import hdrs, web

from gateway import problem_document
from gateway.contract.logs import event
from gateway.problem_document import Problem
from gateway.station.desk import given, problems
from gateway.station.desk.doorkeeper import Asked, Stranger
from gateway.station.desk.parts import DOORKEEPER, HOLDER, IDENTITY, NAMES, SETTINGS, who
from gateway.station.desk.problems import Answered
from gateway.station.desk.rendering import page
from gateway.station.identity import Identity, Role, Via

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
AnyHandler = TypeVar("AnyHandler", bound=Callable[..., Awaitable[web.StreamResponse]])

logger: Final = logging.getLogger("lazaretto.desk")

TOKEN_FIELD: Final = "csrf"
NOBODY: Final = "nobody"
"""Holder of the token on the page where people sign in."""
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    # Not `no-referrer`: under that one a browser hides the origin of our own forms, too.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_OPEN: Final = ("/healthz", "/readyz", "/sign-in", "/static/")
_DOCUMENTS: Final = ("/api/", "/v1/", "/metrics", "/healthz", "/readyz", "/live")
_LEAST: Final[dict[object, Role]] = {}
"""Handlers for which the general rule is not right, and what each takes."""
_READING: Final = frozenset({hdrs.METH_GET, hdrs.METH_HEAD})
_FORMS: Final = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
"""What any web page can make a browser send here without asking first."""
_STRANGERS: Final = {
    Stranger.NO_KEY: "this takes a key of the desk: `Authorization: Bearer lz_...`",
    Stranger.UNKNOWN: "no such key, or its time is over",
    Stranger.NO_GROUP: "the proxy knows you, but you are in none of the groups lazaretto-reader, lazaretto-reviewer,"
    " lazaretto-admin",
    Stranger.NOT_THROUGH_PROXY: "this desk is reached through its proxy, which tells who you are",
    Stranger.THROUGH_PROXY: "this came through a proxy, but the desk asks nobody who he is, because only this machine"
    " should reach it: name keys in LAZARETTO_DESK_KEYS or the proxy's header in LAZARETTO_DESK_USER_HEADER",
}


def session_cookie(request: web.Request) -> str:
    """Return the cookie's name; under TLS one that no other host or path can set."""
    return "__Host-lz_desk" if under_tls(request) else "lz_desk"


def under_tls(request: web.Request) -> bool:
    """Tell whether people reach this desk under TLS, here or at a proxy before it."""
    return request.secure or request.app[SETTINGS].desk_link.startswith("https://")


def needs(role: Role) -> Callable[[AnyHandler], AnyHandler]:
    """Let a handler be reached by those who may do what takes `role`; without this a change takes a reviewer."""

    def marked(handler: AnyHandler) -> AnyHandler:
        _LEAST[handler] = role
        return handler

    return marked


async def add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Put the headers that every answer has on one that is about to be sent."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)


@web.middleware
async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let a request through to its handler, or say why not."""
    try:
        named = urlsplit(f"//{request.host}").hostname
    except ValueError:
        named = None
    if named not in request.app[NAMES]:
        return web.Response(status=421, text="this desk answers only under its own name\n")
    try:
        return await _let_in(request, handler)
    except Answered as ended:
        return _told(request, ended.problem)
    except web.HTTPException as answer:
        if answer.status < HTTPStatus.BAD_REQUEST:
            raise
        return _told(request, _problem(answer.status, answer.text or answer.reason, answer.headers))
    except sa.exc.SQLAlchemyError:
        return _told(request, problems.store_down())
    except ConnectionError:
        raise  # whoever asked has gone
    except Exception:
        event(logger, "desk.bug", logging.CRITICAL, method=request.method, path=request.path)
        logger.exception("an unforeseen error while answering")
        return _told(request, problems.internal())


async def _let_in(request: web.Request, handler: Handler) -> web.StreamResponse:
    # Nothing has it, and a store that is asked for it fails as if it were down.
    if "\x00" in request.path:
        raise web.HTTPNotFound(text="Nothing here has a name with NUL in it.")
    if any("\x00" in value for value in request.query.values()):
        raise web.HTTPBadRequest(text="The query has NUL in it.")
    if request.path.startswith(_OPEN):
        request[HOLDER] = NOBODY
        if request.method not in _READING:
            await _must_be_ours(request)
        return await handler(request)
    cookie = request.cookies.get(session_cookie(request))
    asked = Asked(
        peer=request.remote,
        headers=request.headers,
        authorization=request.headers.getall(hdrs.AUTHORIZATION, []),
        session=cookie,
    )
    found = request.app[DOORKEEPER].identify(asked)
    if isinstance(found, Stranger):
        return _turned_away(request, found)
    request[IDENTITY] = found
    request[HOLDER] = _holder(found, cookie)
    changes = request.method not in _READING
    _must_be(request, _least(request.match_info.handler, Role.REVIEWER if changes else Role.READER))
    if changes and found.via is not Via.KEY:  # which no browser sends by itself
        await _must_be_ours(request)
    return await handler(request)


def _least(handler: object, otherwise: Role) -> Role:
    return _LEAST.get(getattr(handler, "__func__", handler), otherwise)


def _holder(identity: Identity, cookie: str | None) -> str:
    match identity.via:
        case Via.SESSION:
            return f"session {cookie}"
        case _:
            return f"{identity.via} {identity.name}"


def _must_be(request: web.Request, role: Role) -> None:
    if not who(request).may(role):
        able = ", ".join(request.app[DOORKEEPER].who_may(role)) or "nobody yet"
        raise web.HTTPForbidden(text=f"You are a {who(request).role}, and this takes a {role}. Who can do it: {able}.")


async def _must_be_ours(request: web.Request) -> None:
    """Refuse a change that another site's page may have made a browser send."""
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get(hdrs.ORIGIN)
    ours = origin is None or _hostname(origin) in request.app[NAMES]
    if not (ours if site is None else site == "same-origin"):
        raise web.HTTPForbidden(text="This came from a page of another site, so nothing was done.")
    if request.content_type not in _FORMS:
        return
    token = (await given.sent_by(request)).get(TOKEN_FIELD)
    if not isinstance(token, str) or not request.app[DOORKEEPER].forms.fits(request[HOLDER], token):
        raise web.HTTPForbidden(
            text="Nothing was done: the form is older than the desk's last start or your signing in. Go back, load the"
            " page again, and send it once more."
        )


def _hostname(origin: str) -> str | None:
    try:
        return urlsplit(origin).hostname
    except ValueError:
        return None


def _turned_away(request: web.Request, stranger: Stranger) -> web.StreamResponse:
    keyed = request.app[DOORKEEPER].keyed
    if stranger is Stranger.NO_KEY and keyed and not _for_programs(request):
        if request.method not in _READING:
            raise web.HTTPSeeOther("/sign-in")
        raise web.HTTPSeeOther(f"/sign-in?to={quote(request.path_qs, safe='')}")
    status = HTTPStatus.FORBIDDEN if stranger is Stranger.NO_GROUP else HTTPStatus.UNAUTHORIZED
    headers: dict[str, str] = {hdrs.WWW_AUTHENTICATE: "Bearer"} if status is HTTPStatus.UNAUTHORIZED else {}
    return _told(request, _problem(status, _STRANGERS[stranger], headers))


def _for_programs(request: web.Request) -> bool:
    return request.path.startswith(_DOCUMENTS)


def _problem(status: int, text: str, headers: Mapping[str, str]) -> Problem:
    kept = {name: value for name, value in headers.items() if name not in {hdrs.CONTENT_TYPE, hdrs.CONTENT_LENGTH}}
    return problems.refused(status, text.strip(), kept)


def _told(request: web.Request, problem: Problem) -> web.StreamResponse:
    if _for_programs(request):
        return problem_document.response(problem, request_id=str(uuid4()), instance=request.path)
    context = {"status": problem.status, "title": problem.title, "text": problem.detail}
    response = page(request, "trouble.html", context, status=problem.status)
    response.headers.update(problem.headers)
    if problem.retry_after is not None:
        response.headers[hdrs.RETRY_AFTER] = str(problem.retry_after)
    return response
