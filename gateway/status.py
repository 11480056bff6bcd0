"""Where a ticket stands, for the client that submitted it: at once, or as soon as that is news to the client (G9).

Owns the entity tag of a status and the `wait` of a question. A tag stands for what a client would act on, so that
reports which only repeat what is known wake nobody.
"""

import hashlib
import re
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from gateway import answers, errors
from gateway.callers import CALLER
from gateway.contract import knobs
from gateway.contract.ids import is_ticket_id
from gateway.door import Door
from gateway.serving import problem
from gateway.states import StatusUnavailable
from gateway.station.store import TicketStatus
from gateway.waits import TooManyWaiting

_TAG: Final = re.compile(r'(?:W/)?"([\x21\x23-\x7e]*)"')
_ANY: Final = "*"
_KEPT: Final = "private, no-cache"
"""A copy may be kept by the client alone, and is not used before the door was asked."""


class Statuses:
    """The handler of questions after tickets."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def status(self, request: web.Request) -> web.StreamResponse:
        """Tell where a ticket stands; nobody but its client learns that it exists."""
        caller = request[CALLER]
        try:
            seconds = _wait(request)
        except ValueError as error:
            return problem(request, errors.bad_request(f"wait: {error}."))
        ticket = request.match_info["id"]
        if not is_ticket_id(ticket):
            return problem(request, errors.no_such_ticket())
        tags = frozenset(_TAG.findall(",".join(request.headers.getall("If-None-Match", ()))))

        def known(status: TicketStatus | None) -> bool:
            # What is another's must look like what is not there, also in how long the answer takes.
            return status is None or not caller.submitted(status.client) or tag(status) in tags

        try:
            found = await self._door.tickets.status(ticket)
            if seconds and known(found):
                found = await self._door.waits.changed(
                    ticket,
                    found,
                    seconds,
                    client=caller.client,
                    known=known,
                    gone=lambda: request.transport is None or request.transport.is_closing(),
                )
        except StatusUnavailable:
            return problem(request, errors.status_unavailable())
        except TooManyWaiting:
            return problem(request, errors.too_many_waiting())
        if found is None or not caller.submitted(found.client):
            return problem(request, errors.no_such_ticket())
        return _answer(found, known=tag(found) in tags or _ANY in request.headers.getall("If-None-Match", ()))


def tag(found: TicketStatus) -> str:
    """Return the opaque part of a status's entity tag; the time of a report is no part of it."""
    shown: dict[str, Any] = {**answers.status(found), "updated_at": None}
    return hashlib.sha256(repr(sorted(shown.items())).encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _answer(found: TicketStatus, *, known: bool) -> web.Response:
    answer = web.Response(status=HTTPStatus.NOT_MODIFIED) if known else answers.document(answers.status(found))
    # Weak: a status whose report came again later is another document that tells the same.
    answer.headers["ETag"] = f'W/"{tag(found)}"'
    answer.headers["Cache-Control"] = _KEPT
    return answer


def _wait(request: web.Request) -> float:
    """Return how many seconds the client would wait; raises ValueError."""
    given = request.query.getall("wait", ())
    if len(given) > 1:
        raise ValueError("the query has it more than once")
    return knobs.duration(given[0]) if given else 0.0
