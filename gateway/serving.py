"""HTTP as such: what every answer has, whatever it says.

Owns request ids, security headers and the last catch of errors. Knows nothing of tickets; what lies below requests is
`gateway.connection`.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from aiohttp import web

from gateway import errors, problem_document
from gateway.body import DRAIN_SECONDS, answer_while_sending
from gateway.contract import logs
from gateway.contract.ids import uuid7
from gateway.contract.text import clip
from gateway.contract.trace_context import TraceContext

log = logging.getLogger("gateway.http")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

REQUEST_ID: Final = web.RequestKey("request_id", str)
CLIENT: Final = web.RequestKey("client", str)
"""Whom a request is from; there once that is known."""
ADDRESS: Final = web.RequestKey("address", str)
"""Where it came from, for people who read logs; empty where that cannot be told."""
TRACE: Final = web.RequestKey("trace", TraceContext)
"""What follows from a request belongs here, where the door has a tracer."""
_MAX_INSTANCE: Final = 256
_PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""Asked every few seconds; what they answer is told where it comes about."""

EVERY_ANSWER: Final = {
    "Server": "lazaretto",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""What every answer has."""


def dress(answer: web.StreamResponse, request_id: str) -> None:
    """Put on an answer what every answer has."""
    answer.headers["Request-Id"] = request_id
    for name, value in EVERY_ANSWER.items():
        answer.headers.setdefault(name, value)


@web.middleware
async def answer_always(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every request as JSON with a request id, also where the handler or the router failed."""
    request_id = request[REQUEST_ID] = uuid7()
    started = time.perf_counter()
    try:
        answer = await handler(request)
    except web.HTTPMethodNotAllowed as error:
        answer = problem(request, errors.method_not_allowed(", ".join(sorted(error.allowed_methods))))
    except web.HTTPNotFound:
        answer = problem(request, errors.not_found())
    except web.HTTPException as error:
        answer = problem(request, errors.bad_request(f"The request was refused: {error.reason}.", close=True))
    except Exception as error:
        logs.event(log, "request_failed", logging.ERROR, request=request_id, path=request.path, error=error)
        log.exception("request_trace")
        answer = problem(request, errors.internal())
    dress(answer, request_id)
    if not answer.prepared:
        # A client that is still sending must be able to read why, and one that is too slow has had its time.
        late = answer.status == HTTPStatus.REQUEST_TIMEOUT
        answer = await answer_while_sending(request, answer, drain_seconds=0 if late else DRAIN_SECONDS)
    is_told = answer.status >= HTTPStatus.BAD_REQUEST and request.path not in _PROBES
    if log.isEnabledFor(logging.INFO if is_told else logging.DEBUG):
        logs.event(
            log,
            "answered",
            logging.INFO if is_told else logging.DEBUG,
            request=request_id,
            method=request.method,
            path=request.path,
            client=request.get(CLIENT),
            address=request.get(ADDRESS),
            status=answer.status,
            seconds=round(time.perf_counter() - started, 4),
        )
    return answer


def problem(request: web.Request, what: problem_document.Problem) -> web.Response:
    """Return a problem as the answer to `request`."""
    return problem_document.response(what, request_id=request[REQUEST_ID], instance=clip(request.path, _MAX_INSTANCE))


async def expect_later(request: web.Request) -> None:
    """Leave `Expect: 100-continue` to `invite`: a refusal before the body spares the client the upload."""


async def invite(request: web.Request, max_bytes: int) -> None:
    """Ask a client that waits for it to send its body, unless the body is declared to be too large anyway."""
    waits = request.headers.get("Expect", "").lower() == "100-continue"
    if waits and (request.content_length is None or request.content_length <= max_bytes):
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
