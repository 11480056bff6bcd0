"""Everything the door can answer that is not what the client hoped for (RFC 9457).

Owns type, title, status and whether a retry helps; never repeats a byte of the payload.

    Problem
    ├── the request cannot be read
    │   ├── 400 bad-request             framing, headers, query; the text says where
    │   ├── 400 malformed               the body is not what its content type says; violations
    │   ├── 408 too-slow                the body did not arrive within its deadline
    │   ├── 431 headers-too-large
    │   └── 400 bad-idempotency-key
    ├── there is no such thing here
    │   ├── 404 not-found
    │   ├── 404 no-such-ticket
    │   ├── 405 method-not-allowed      names the methods that are
    │   └── 406 not-acceptable
    ├── refused by preflight            violations name rule, limit and actual value
    │   ├── 413 too-large
    │   ├── 415 unsupported
    │   └── 422 inadmissible
    └── not now                         Retry-After; safe to retry with the same key or id
        ├── 503 not-accepted            no confirm, whatever the cause; `reason` names it
        ├── 503 overloaded
        ├── 503 draining
        ├── 503 not-ready               the answer of /readyz
        ├── 503 status-unavailable      the store of ticket states cannot be read
        ├── 503 too-many-waiting        for a ticket to change
        └── 500 internal                our own bug

Who may come in, and how often: `gateway.caller_problems`. What was sent before: `gateway.repetition_problems`.
"""

from collections.abc import Mapping
from typing import Final

from gateway.admission import Refused, Rule
from gateway.problem_document import Problem

NOT_ACCEPTED: Final = "The ticket was not accepted; it is safe to retry with the same key or id."


def bad_request(detail: str, *, close: bool = False) -> Problem:
    """400: the request itself cannot be read."""
    return Problem(code="bad-request", status=400, title="The request cannot be read", detail=detail, close=close)


def bad_idempotency_key(detail: str) -> Problem:
    """400: the key is not usable."""
    return Problem(code="bad-idempotency-key", status=400, title="Unusable Idempotency-Key", detail=detail)


def headers_too_large() -> Problem:
    """431: a header, or the request line, is longer than the door reads."""
    return Problem(
        code="headers-too-large",
        status=431,
        title="Headers too large",
        detail="A header or the request line is longer than 8190 bytes, or there are more than 64 headers.",
        close=True,
    )


def not_found() -> Problem:
    """404: nothing lives at this path."""
    return Problem(
        code="not-found", status=404, title="Nothing here", detail="See /openapi.json for what the door offers."
    )


def no_such_ticket() -> Problem:
    """404: no ticket of this id is known to this client."""
    return Problem(
        code="no-such-ticket", status=404, title="No such ticket", detail="No ticket of this id was accepted from you."
    )


def method_not_allowed(allowed: str) -> Problem:
    """405: the path exists for other methods."""
    return Problem(
        code="method-not-allowed",
        status=405,
        title="Method not allowed",
        detail=f"This path takes {allowed}.",
        headers={"Allow": allowed},
    )


def not_acceptable() -> Problem:
    """406: the client takes no answer that the door can give."""
    return Problem(
        code="not-acceptable",
        status=406,
        title="Not acceptable",
        detail="Answers are application/json, problems application/problem+json; the Accept header excludes them.",
    )


def not_accepted(reason: str, retry_after: int) -> Problem:
    """503: no confirm; what became of the message is not known for certain, or it was not even sent."""
    return Problem(
        code="not-accepted",
        status=503,
        title="Not accepted",
        detail=NOT_ACCEPTED,
        retryable=True,
        retry_after=retry_after,
        reason=reason,
    )


def overloaded(reason: str) -> Problem:
    """503: too much is under way in this door."""
    return Problem(
        code="overloaded",
        status=503,
        title="Too much at once",
        detail=NOT_ACCEPTED,
        retryable=True,
        retry_after=1,
        reason=reason,
        close=True,
    )


def draining() -> Problem:
    """503: this door is about to end."""
    return Problem(
        code="draining",
        status=503,
        title="This door is closing",
        detail=NOT_ACCEPTED,
        retryable=True,
        retry_after=1,
        reason="draining",
        close=True,
    )


def not_ready(reason: str, checks: Mapping[str, object]) -> Problem:
    """503: a publish would not be confirmed now."""
    return Problem(
        code="not-ready",
        status=503,
        title="Not ready",
        detail="A ticket sent now would not be accepted.",
        retryable=True,
        retry_after=1,
        reason=reason,
        members={"checks": checks},
    )


def status_unavailable() -> Problem:
    """503: the store of ticket states cannot be read."""
    return Problem(
        code="status-unavailable",
        status=503,
        title="Status unavailable",
        detail="The store of ticket states cannot be read now. Accepted tickets are safe.",
        retryable=True,
        retry_after=5,
    )


def too_many_waiting() -> Problem:
    """503: no place for one more who waits for a ticket to change."""
    return Problem(
        code="too-many-waiting",
        status=503,
        title="Too many are waiting",
        detail="Too many clients wait for a ticket to change. Ask without `wait`, or again later.",
        retryable=True,
        retry_after=5,
    )


def internal() -> Problem:
    """500: our own bug."""
    return Problem(
        code="internal",
        status=500,
        title="Internal error",
        detail="The door failed on this request; it is on record under the request id.",
        retryable=True,
    )


_UNSUPPORTED: Final = frozenset(
    {Rule.UNSUPPORTED_CONTENT_TYPE, Rule.UNSUPPORTED_CONTENT_ENCODING, Rule.UNSUPPORTED_CHARSET}
)
_MALFORMED: Final = frozenset(
    {
        Rule.BODY_BROKEN,
        Rule.BROKEN_CONTENT_ENCODING,
        Rule.MULTIPART_MALFORMED,
        *(rule for rule in Rule if rule.startswith("json_")),
    }
)


def refused(refusal: Refused) -> Problem:
    """Return the answer for what preflight refused: the most telling status of its violations."""
    rules = {violation.rule for violation in refusal.violations}
    many = "" if len(refusal.violations) == 1 else f" (and {len(refusal.violations) - 1} more)"
    detail = refusal.violations[0].message + many
    violations = refusal.violations
    if Rule.BODY_TOO_SLOW in rules:
        return Problem(
            code="too-slow",
            status=408,
            title="Body too slow",
            detail=detail,
            violations=violations,
            close=True,
            retryable=True,
        )
    if Rule.BODY_TOO_LARGE in rules:
        return Problem(
            code="too-large", status=413, title="Too large", detail=detail, violations=violations, close=True
        )
    if rules & _UNSUPPORTED:
        return Problem(code="unsupported", status=415, title="Not supported", detail=detail, violations=violations)
    if rules & _MALFORMED:
        return Problem(code="malformed", status=400, title="Malformed body", detail=detail, violations=violations)
    return Problem(code="inadmissible", status=422, title="Not admissible", detail=detail, violations=violations)
