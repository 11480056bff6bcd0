"""A problem as door and desk tell it to programs (RFC 9457).

Owns the document's members and its media type. Which problems there are is for each of them to say: `gateway.errors`,
`gateway.station.desk.problems`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from aiohttp import web

from gateway.admission import Violation

CONTENT_TYPE: Final = "application/problem+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One answer of the kind `application/problem+json`."""

    code: str
    status: int
    title: str
    detail: str
    retryable: bool = False
    retry_after: int | None = None
    """Seconds."""
    reason: str | None = None
    violations: Sequence[Violation] = ()
    members: Mapping[str, object] = field(default_factory=dict)
    """Further members of the document."""
    headers: Mapping[str, str] = field(default_factory=dict)
    close: bool = False
    """Whether the connection cannot be used further, because its input was left unread."""

    @property
    def type(self) -> str:
        """The problem type's URI."""
        return f"urn:lazaretto:problem:{self.code}"


def response(problem: Problem, *, request_id: str, instance: str) -> web.Response:
    """Return the HTTP answer for a problem that occurred on the path `instance`."""
    document: dict[str, Any] = {
        "type": problem.type,
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "instance": instance,
        "request_id": request_id,
        "retryable": problem.retryable,
    }
    if problem.reason is not None:
        document["reason"] = problem.reason
    if problem.violations:
        document["violations"] = [violation_document(violation) for violation in problem.violations]
    document.update(problem.members)
    headers = {"Content-Type": CONTENT_TYPE, **problem.headers}
    if problem.retry_after is not None:
        headers["Retry-After"] = str(problem.retry_after)
    answer = web.Response(status=problem.status, body=orjson.dumps(document), headers=headers)
    if problem.close:
        answer.force_close()
    return answer


def violation_document(violation: Violation) -> dict[str, Any]:
    """Return a violation as clients and the refusal record see it."""
    document: dict[str, Any] = {
        "rule": violation.rule.value,
        "pointer": violation.pointer,
        "limit": violation.limit,
        "actual": violation.actual,
        "unit": violation.unit,
        "confidence": violation.confidence.value,
        "message": violation.message,
    }
    if violation.offset is not None:
        document["offset"] = violation.offset
    if violation.hint is not None:
        document["hint"] = violation.hint
    return document
