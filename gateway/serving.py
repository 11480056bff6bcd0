"""HTTP as such: what every answer has, whatever it says, and bytes that are no HTTP at all.

Owns request ids, security headers, the last catch of errors, and the server's own limits. Knows nothing of tickets.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler

from gateway import errors
from gateway.body import answer_while_sending
from gateway.contract import logs
from gateway.contract.ids import uuid7
from gateway.contract.text import clip

log = logging.getLogger("gateway.http")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

REQUEST_ID: Final = web.RequestKey("request_id", str)
MAX_LINE: Final = 8190
"""Bytes of the request line, and of one header."""
MAX_HEADERS: Final = 64
KEEPALIVE: Final = 75.0
"""Seconds an idle connection stays open, and the time a client has for its headers."""
LINGER: Final = 5.0
"""Seconds an answered client may go on sending before its connection is closed, so that it reads the answer (D17)."""

_MAX_INSTANCE: Final = 256
_PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""Asked every few seconds; what they answer is told where it comes about."""

_EVERY_ANSWER: Final = {
    "Server": "lazaretto",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def dress(answer: web.StreamResponse, request_id: str) -> None:
    """Put on an answer what every answer has."""
    answer.headers["Request-Id"] = request_id
    for name, value in _EVERY_ANSWER.items():
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
        answer = await answer_while_sending(request, answer, drain_seconds=0 if late else LINGER)
    logs.event(
        log,
        "answered",
        logging.INFO if answer.status >= HTTPStatus.BAD_REQUEST and request.path not in _PROBES else logging.DEBUG,
        request=request_id,
        method=request.method,
        path=request.path,
        status=answer.status,
        seconds=round(time.perf_counter() - started, 4),
    )
    return answer


def problem(request: web.Request, what: errors.Problem) -> web.Response:
    """Return a problem as the answer to `request`."""
    return errors.response(what, request_id=request[REQUEST_ID], instance=clip(request.path, _MAX_INSTANCE))


async def expect_later(request: web.Request) -> None:
    """Leave `Expect: 100-continue` to `invite`: a refusal before the body spares the client the upload."""


async def invite(request: web.Request, max_bytes: int) -> None:
    """Ask a client that waits for it to send its body, unless the body is declared to be too large anyway."""
    waits = request.headers.get("Expect", "").lower() == "100-continue"
    if waits and (request.content_length is None or request.content_length <= max_bytes):
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0


class Runner(web.AppRunner):
    """Runs the application with limits of our own, and answers what is no HTTP in our own words."""

    def __init__(self, app: web.Application, *, shutdown_timeout: float) -> None:
        self._limits: dict[str, Any] = {
            "max_line_size": MAX_LINE,
            "max_field_size": MAX_LINE,
            "max_headers": MAX_HEADERS,
            "keepalive_timeout": KEEPALIVE,
            "lingering_time": LINGER,
            "auto_decompress": False,  # the body's reader inflates, under its cap (D13)
            "access_log": None,
        }
        super().__init__(app, shutdown_timeout=shutdown_timeout, handler_cancellation=False, **self._limits)

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        return _Server(
            server.request_handler,
            request_factory=server.request_factory,
            handler_cancellation=False,
            loop=server._loop,  # noqa: SLF001 - the loop we run in, as aiohttp hands it on itself
            **self._limits,
        )


class _Server(web.Server):
    def __call__(self) -> RequestHandler:
        return _Protocol(self, loop=self._loop, **self._kwargs)


class _Protocol(RequestHandler):
    """aiohttp's connection, with its one plain-text answer replaced."""

    def handle_error(
        self,
        request: web.BaseRequest,  # noqa: ARG002 - a stand-in: what came could not be read as a request
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - quotes the client's bytes, so it is never repeated
    ) -> web.StreamResponse:
        request_id = uuid7()
        logs.event(log, "not_http", request=request_id, status=status, error=type(exc).__name__)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            what = errors.internal()
        elif isinstance(exc, LineTooLong) or "Too many headers" in str(exc):
            what = errors.headers_too_large()
        else:
            what = errors.bad_request("This is not a well-formed HTTP/1.1 request.", close=True)
        answer = errors.response(what, request_id=request_id, instance="")
        dress(answer, request_id)
        answer.force_close()
        return answer
