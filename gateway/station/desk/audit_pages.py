"""Audit: who did what and why, filtered, and as JSON lines to keep elsewhere.

Owns these paths. Changes nothing: what is on record stays.
"""

from dataclasses import asdict

from aiohttp import web

from gateway.station import audit_trail
from gateway.station.audit_trail import PAGE, Wanted
from gateway.station.desk.parts import STORE
from gateway.station.desk.rendering import page
from gateway.station.documents import written


def add_routes(app: web.Application) -> None:
    """Add this module's pages."""
    app.router.add_get("/audit", _list)
    app.router.add_get("/audit.jsonl", _export)


async def _list(request: web.Request) -> web.StreamResponse:
    wanted, below = _wanted(request), request.query.get("below", "")
    number = int(below) if below.isascii() and below.isdecimal() and len(below) < len(str(2**63)) else None
    found = await audit_trail.find(request.app[STORE], wanted, below=number)
    context = {
        "acts": found,
        "wanted": wanted,
        "below": found[-1].id if len(found) == PAGE else None,
        "first": number is None,
        "choices": await audit_trail.acts(request.app[STORE]),
        "query": {name: value for name, value in asdict(wanted).items() if value},
    }
    return page(request, "audit.html", context)


async def _export(request: web.Request) -> web.StreamResponse:
    headers = {"Content-Type": "application/jsonl", "Content-Disposition": 'attachment; filename="audit.jsonl"'}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    async for entry in audit_trail.each(request.app[STORE], _wanted(request)):
        await response.write(f"{written(asdict(entry))}\n".encode())
    await response.write_eof()
    return response


def _wanted(request: web.Request) -> Wanted:
    return Wanted(**{name: request.query.get(name, "").strip() or None for name in ("actor", "act", "ticket")})
