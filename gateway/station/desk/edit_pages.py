"""Edit and replay: what is to be different, what the door says of it, and what exactly changes, before it is sent.

Owns these forms. The edit, the checks and the replay are `gateway.station.edited_replay`'s; the item keeps its own
body.
"""

from typing import Any, Final

from aiohttp import web

from gateway.contract.text import printable
from gateway.preflight.ticket import Ticket
from gateway.preflight.vocabulary import VocabularyError
from gateway.station import dossier, edited_replay, replays
from gateway.station.checks import Checks
from gateway.station.desk import address, deciding, enclosures, given
from gateway.station.desk.given import Form, Incomplete
from gateway.station.desk.guard import needs
from gateway.station.desk.item_pages import must_be_seen
from gateway.station.desk.parts import SENDER, SETTINGS, STORE
from gateway.station.desk.preview import Verbatim, visible
from gateway.station.desk.rendering import page
from gateway.station.dossier import Item
from gateway.station.edited_replay import Refused
from gateway.station.edits import Edit
from gateway.station.holding import ItemState
from gateway.station.identity import Role
from gateway.station.replays import Plan

_JSON: Final = "application/json"


def add_routes(app: web.Application) -> None:
    """Add this module's pages."""
    app.router.add_get("/items/{ticket}/edit", _show)
    app.router.add_post("/items/{ticket}/edit", _change)


@needs(Role.REVIEWER)
async def _show(request: web.Request) -> web.StreamResponse:
    item, found = await _found(request)
    return _page(request, item, found)


async def _change(request: web.Request) -> web.StreamResponse:
    item, found = await _found(request)
    form, ticket, settings = await given.read(request), item.ticket, request.app[SETTINGS]
    edit = _edit(form, found)
    if edit.is_empty:
        return _page(request, item, found, form, status=400, trouble="nothing is different yet")
    try:
        plan = await edited_replay.prepare(
            request.app[STORE],
            Checks(settings),
            ticket,
            edit,
            lane=deciding.lane(form),
            generation=address.whole(form.text("generation")),
            limit=settings.replay_limit,
        )
    except VocabularyError as error:
        return _page(request, item, found, form, status=503, trouble=f"it cannot be checked now: {error}")
    if isinstance(plan, Refused):
        trouble = f"the door would refuse it: {plan.fails.sentence}"
        return _page(request, item, found, form, status=422, trouble=trouble, difference=plan.difference)
    if not isinstance(plan, Plan):
        return await deciding.told(request, plan, form, done="replayed")
    changed = None if plan.change is None else plan.change.difference
    if form.text("do") != "send":
        return _page(request, item, found, form, difference=changed, passes=True)
    decision = form.decision()
    if isinstance(decision, Incomplete):
        return _page(request, item, found, form, status=400, trouble=decision.sentence, difference=changed, passes=True)
    topology = settings.topology
    done = await replays.replay(request.app[STORE], request.app[SENDER], topology, ticket, decision, plan=plan)
    return await deciding.told(request, done, form, done="replayed")


async def _found(request: web.Request) -> tuple[Item, Ticket | None]:
    """Return the newest item of the ticket in the path, and its body read as a ticket; raises HTTPNotFound."""
    ticket = request.match_info["ticket"]
    found = await dossier.find(request.app[STORE], ticket)
    if found is None or not found.items or found.items[0].removed_at is not None:
        raise web.HTTPNotFound(text="There is nothing of it here that could be edited.")
    item = found.items[0]
    must_be_seen(request, ticket, item.generation)
    return item, await enclosures.read(request.app[STORE], ticket, item.generation)


def _edit(form: Form, found: Ticket | None) -> Edit:
    """Return what the form has different. A browser ends lines with CRLF, whatever was there."""
    text, subject = form.fields.get("text"), form.fields.get("subject")
    was_text, was_subject = (None, None) if found is None else (found.text, found.subject)
    return Edit(
        text=_written(text, was_text) if text is not None and _lines(text) != _lines(was_text or "") else None,
        subject=subject if subject is not None and subject != (was_subject or "") else None,
    )


def _written(text: str, before: str | None) -> str:
    return text if before is not None and "\r\n" in before else _lines(text)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")


def _comes_back(text: str) -> bool:
    """Tell whether a browser gives a text back as it got it, but for the ends of lines."""
    return "\x00" not in text and "\r" not in _lines(text) and printable(text) == text


def _page(
    request: web.Request, item: Item, found: Ticket | None, form: Form | None = None, *, status: int = 200, **told: Any
) -> web.StreamResponse:
    before = "" if found is None else found.text
    text = form.fields.get("text", "") if form else before
    is_json = (item.content_type or "").partition(";")[0].strip() == _JSON
    context = {
        "item": item,
        "editable": found is not None and item.state is ItemState.HELD and _comes_back(before),
        "text": Verbatim(text),
        "unseen": visible(_lines(text)) != _lines(text),
        "subject": Verbatim(form.fields.get("subject", "") if form else (found.subject or "") if found else ""),
        "has_subject": is_json,
        "given": form.fields if form else {},
        "trouble": None,
        "difference": None,
        "passes": False,
    }
    return page(request, "edit.html", {**context, **told}, status=status)
