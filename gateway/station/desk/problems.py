"""Everything the desk can answer that is not what was hoped for (RFC 9457).

Owns type, title and status of each. Says no more of an item than the API would show.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from gateway.admission import Violation
from gateway.problem_document import Problem
from gateway.station.decided import Bar, Barred, Taken, Unsent

_UNPROCESSABLE: Final = frozenset({Bar.NOT_EDITABLE, Bar.INADMISSIBLE})


class Answered(Exception):
    """A request that ends in a problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def unreadable(detail: str) -> Problem:
    """400: the document or the query is not what is described."""
    return Problem(code="bad-request", status=400, title="The request cannot be read", detail=detail)


def not_json() -> Problem:
    """415: a form of another site cannot send this type."""
    detail = "Send application/json."
    return Problem(code="unsupported", status=415, title="Not supported", detail=detail)


def nobody(detail: str) -> Problem:
    """422: the desk does not know who asks, and the document does not say in `by`."""
    return Problem(code="name-required", status=422, title="Who decides?", detail=detail)


def no_such_item(ticket: str) -> Problem:
    """404: it was never in quarantine here."""
    detail = f"Ticket {ticket!r} was never in quarantine here."
    return Problem(code="no-such-item", status=404, title="No such item", detail=detail)


def no_such_ticket(ticket: str) -> Problem:
    """404: nobody ever reported it."""
    detail = f"Nothing of ticket {ticket!r} was ever reported here."
    return Problem(code="no-such-ticket", status=404, title="No such ticket", detail=detail)


def no_such_group(name: str) -> Problem:
    """404: no item ever died of it."""
    return Problem(code="no-such-group", status=404, title="No such group", detail=f"There is no group {name!r}.")


def changed(sentence: str) -> Problem:
    """409: it is not any more as the reviewer saw it; the detail says how it is, and by whom."""
    return Problem(code="changed-meanwhile", status=409, title="Changed meanwhile", detail=sentence)


def no_such_operation(name: str) -> Problem:
    """404: there is none of this id."""
    return Problem(code="no-such-operation", status=404, title="No such operation", detail=f"There is no {name!r}.")


def taken(found: Taken) -> Problem:
    """409: somebody was first; `winner` says who, and when."""
    winner = {"state": found.state.value, "by": found.by, "at": found.at, "reason": found.reason}
    return Problem(
        code="decided-already", status=409, title="Decided already", detail=found.sentence, members={"winner": winner}
    )


def barred(found: Barred) -> Problem:
    """409 or 422: nobody has decided it, and yet this cannot be done."""
    status = 422 if found.bar in _UNPROCESSABLE else 409
    return Problem(code="barred", status=status, title="Cannot be done", detail=found.why, reason=found.bar.value)


def inadmissible(violations: Sequence[Violation], difference: str | None, detail: str) -> Problem:
    """422: the door would not let the edited body in."""
    return Problem(
        code="inadmissible",
        status=422,
        title="Not admissible",
        detail=detail,
        reason=Bar.INADMISSIBLE.value,
        violations=violations,
        members={} if difference is None else {"difference": difference},
    )


def not_sent(found: Unsent) -> Problem:
    """503: the broker certainly did not take it; the item is as it was."""
    return Problem(
        code="not-sent",
        status=503,
        title="Not sent",
        detail=f"The item is as it was: {found.why}",
        retryable=True,
        retry_after=5,
    )


def not_now(sentence: str) -> Problem:
    """409: the state of the operation does not allow it, or the count is another one."""
    return Problem(code="not-now", status=409, title="Not now", detail=sentence)


def token_taken(operation: str) -> Problem:
    """409: the key stands for another request."""
    detail = f"This Idempotency-Key came with another request, which made operation {operation}."
    members: Mapping[str, object] = {"operation": operation}
    return Problem(code="key-reused", status=409, title="Key reused", detail=detail, members=members)


def too_many(detail: str) -> Problem:
    """422: more items than one operation may have."""
    return Problem(code="too-many", status=422, title="Too many", detail=detail)


def refused(status: int, detail: str, headers: Mapping[str, str]) -> Problem:
    """Any other status that was raised on the way: who asks may not, what is asked for is not there."""
    phrase = HTTPStatus(status).phrase
    return Problem(code=phrase.lower().replace(" ", "-"), status=status, title=phrase, detail=detail, headers=headers)


def internal() -> Problem:
    """500: our own bug."""
    return Problem(
        code="internal",
        status=500,
        title="Internal error",
        detail="The station failed on this; what it was is in its log. Whether a change was made is to be looked at.",
    )


def store_down() -> Problem:
    """503: the store cannot be used now."""
    return Problem(
        code="store-unavailable",
        status=503,
        title="Store unavailable",
        detail="The store cannot be used now. Whether a change was made can be seen when it is back.",
        retryable=True,
        retry_after=5,
    )
