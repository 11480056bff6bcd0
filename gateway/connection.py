"""One connection, below requests: framing that readers could take in two ways is refused, and the refusal arrives.

Owns the web server's own limits, and what aiohttp's parser lets through: HTTP that is not 1.0 or 1.1, transfer codings
other than one `chunked`, heads without an end, framing without content. Knows no ticket and no route.
"""

import asyncio
import itertools
import logging
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from aiohttp import EMPTY_PAYLOAD, HttpVersion10, HttpVersion11, StreamReader, hdrs, web
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong
from aiohttp.http_parser import RawRequestMessage
from aiohttp.web_protocol import RequestHandler, _ErrInfo

from gateway import errors, problem_document
from gateway.body import DRAIN_BYTES, DRAIN_SECONDS
from gateway.contract import logs
from gateway.contract.ids import uuid7
from gateway.open_connections import OpenConnections
from gateway.serving import dress, log
from gateway.turned_away import TurnedAway

MAX_LINE: Final = 8190
"""Bytes of the request line, and of one header."""
MAX_HEADERS: Final = 64
MAX_HEAD: Final = 65_536
"""Bytes that a head may have before its end has come: what waits for its end is held, and no room is asked for it."""
KEEPALIVE: Final = 75.0
"""Seconds an idle connection stays open, and the time a client has for its headers."""

FRAMING_SHARE: Final = 4
FRAMING_ALLOWANCE: Final = 65_536
"""A body may have this many bytes of framing for each of its content, after an allowance: chunks of one byte cost the
parser a hundred times what they bring, and a chunk's extension may be as long as its sender likes."""

_READ_AT_ONCE: Final = 65_536
"""Bytes that the parser gets in one turn of the loop: as many tiny chunks cost it about 10 ms."""
_MOST_TURNED_AWAY: Final = 64
"""Clients for which there was no room, and which hear so at a time; beyond, their connections just end."""
_VERSIONS: Final = frozenset({HttpVersion10, HttpVersion11})


Take = Callable[[RawRequestMessage, StreamReader, Callable[[bytes], None], Callable[[], str]], bool]
"""Takes a request, its body, what sends its answer, and what tells its peer's address; tells whether it was taken."""


def _take_none(*_: object) -> bool:
    return False


class Runner(web.AppRunner):
    """Runs the application with limits of our own, and connections that answer in our own words."""

    def __init__(
        self, app: web.Application, connections: OpenConnections, take: Take = _take_none, *, shutdown_timeout: float
    ) -> None:
        """`take` is asked first for each request that comes while nothing else is under way on its connection."""
        self._open = connections
        self._take = take
        self._limits: dict[str, Any] = {
            "max_line_size": MAX_LINE,
            "max_field_size": MAX_LINE,
            "max_headers": MAX_HEADERS,
            "keepalive_timeout": KEEPALIVE,
            "lingering_time": DRAIN_SECONDS,
            "auto_decompress": False,  # the body's reader inflates, under its cap (D13)
            "access_log": None,
        }
        super().__init__(app, shutdown_timeout=shutdown_timeout, handler_cancellation=False, **self._limits)

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        return _Server(
            self._open,
            self._take,
            server.request_handler,
            request_factory=server.request_factory,
            handler_cancellation=False,
            loop=server._loop,  # noqa: SLF001 - the loop we run in, as aiohttp hands it on itself
            **self._limits,
        )


class _Server(web.Server):
    def __init__(self, connections: OpenConnections, take: Take, *handler: Any, **options: Any) -> None:
        super().__init__(*handler, **options)
        self._open = connections
        self._take = take
        self._turned_away: set[TurnedAway] = set()

    def __call__(self) -> RequestHandler:
        """Return who speaks on a connection that was just taken from the system: the loop asks for each."""
        if not self._open.admit():
            # The loop takes any protocol.
            return TurnedAway(self._turned_away, _MOST_TURNED_AWAY)  # type: ignore[return-value]
        return _Connection(self, self._open, self._take, loop=self._loop, **self._kwargs)


class _Connection(RequestHandler):
    """aiohttp's connection, which no longer takes what is ambiguous, and whose one plain-text answer is replaced."""

    def __init__(self, manager: web.Server, connections: OpenConnections, take: Take, **options: Any) -> None:
        super().__init__(manager, **options)
        self._open = connections
        self._take = take
        self._resting: tuple[asyncio.Future[None], RawRequestMessage] | None = None
        """What aiohttp waits with for its next request, while this one is answered without it."""
        self._body: StreamReader = EMPTY_PAYLOAD
        """Of the request that came last."""
        self._body_wire = 0
        """Bytes received since its head."""
        self._head = 0
        """Bytes received of a head whose end has not come."""
        self._lingering: _Lingering | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._open.opened(self)
        if hasattr(transport, "max_size"):  # how much one turn of the loop reads
            transport.max_size = _READ_AT_ONCE
        elif (connected := transport.get_extra_info("socket")) is not None:
            # uvloop reads all that is there: no more is ever there.
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _READ_AT_ONCE)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._open.closed(self)
        if self._lingering is not None:
            self._lingering.over.set()

    def quiet_since(self) -> float | None:
        """Return since when (on the loop's clock) the next request is waited for."""
        if self._waiter is None or self._messages:
            return None
        return self._next_keepalive_close_time - self._keepalive_timeout

    def drop(self) -> None:
        """Close at once: a client that reads nothing would put off any other end."""
        if self.transport is not None:
            self.transport.abort()

    def eof_received(self) -> None:
        super().eof_received()
        if self._lingering is not None:
            self._lingering.over.set()

    def data_received(self, data: bytes) -> None:
        """Have the parser read `data`, and look at what it made of it."""
        if self._lingering is not None:
            self._lingering.discard(len(data))
            return
        reading_head = self._body.is_eof()
        queued = len(self._messages)
        waiter = self._waiter
        is_idle = waiter is not None and not waiter.done() and not queued
        if is_idle:
            self._waiter = None  # aiohttp is told of no request before it was looked at
        try:
            super().data_received(data)
        except BaseException:
            self._waiter = waiter
            raise
        if self._upgraded:
            # No other protocol is spoken here, and what follows would be parsed past `_look_at`: it is never read.
            self._message_tail, self._close = b"", True
        if len(self._messages) > queued:
            self._head = 0
            self._look_at(queued)
        elif reading_head:
            self._head += len(data)
            if self._head > MAX_HEAD:
                self._head = 0
                self._refuse(LineTooLong("the head", MAX_HEAD))
        else:
            self._body_wire += len(data)
            if self._body_wire > FRAMING_ALLOWANCE + (1 + FRAMING_SHARE) * self._body.total_bytes:
                self._break("the framing of the body is larger than its content")
        if waiter is not None and is_idle:
            self._take_or_wake(waiter)

    def _take_or_wake(self, waiter: asyncio.Future[None]) -> None:
        """Have what has come answered on the short way, or let aiohttp know of it."""
        self._waiter = waiter
        if len(self._messages) == 1 and not waiter.done() and self._takes_short_way(waiter):
            return
        if self._messages and not waiter.done():
            waiter.set_result(None)

    def _takes_short_way(self, waiter: asyncio.Future[None]) -> bool:
        """Tell whether the one request that has come is answered without aiohttp."""
        message, payload = self._messages[0]
        if isinstance(message, _ErrInfo) or self._close or self._force_close or self._upgraded or self._paused:
            return False
        if self._manager is None or self._parser is None:
            return False
        self._messages.popleft()
        # As if a request of its own were under way: it waits with the next one, and at the end for this one.
        self._waiter, self._resting = None, (waiter, message)
        self._request_in_progress = True
        try:
            taken = self._take(message, payload, partial(self._answer, message), self._address)
        except Exception as error:  # noqa: BLE001 - nothing is published by then, and the long way tells what is wrong
            logs.event(log, "short_way_failed", logging.ERROR, error=error)
            log.exception("short_way_trace")
            taken = False
        if taken:
            self._parser.message_consumed()
            self._manager.requests_count += 1
            return True
        self._messages.appendleft((message, payload))
        self._waiter, self._resting = waiter, None
        self._request_in_progress = False
        return False

    def _answer(self, message: RawRequestMessage, whole: bytes) -> None:
        """Send the answer to the request on the short way, and let aiohttp wait for the next."""
        if self._resting is None or self._resting[1] is not message:
            return
        (waiter, _), self._resting = self._resting, None
        self._request_in_progress = False
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(whole)
        if self._handler_waiter is not None and not self._handler_waiter.done():
            self._handler_waiter.set_result(None)
        if self._close or self._force_close:
            waiter.cancel()  # as closing does to one that it sees
            if self.transport is not None:
                self.transport.close()  # once the answer is out; nobody else is left to do it
            return
        self._waiter = waiter
        if self._messages:
            waiter.set_result(None)
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(self._next_keepalive_close_time, self._process_keepalive)

    def _address(self) -> str:
        peer = self.peername
        return str(peer[0]) if isinstance(peer, tuple) else peer or ""

    def _look_at(self, queued: int) -> None:
        """Take in the messages that have just been parsed, up to the first that is no request of one meaning."""
        for position, (message, body) in enumerate(itertools.islice(list(self._messages), queued, None), queued):
            if isinstance(message, _ErrInfo):
                self._break("the framing of the body is broken")
                self._body = EMPTY_PAYLOAD
            elif message.version not in _VERSIONS or not _has_one_framing(message):
                while len(self._messages) > position:
                    self._messages.pop()
                self._refuse(BadHttpMessage("ambiguous framing"))
                return
            else:
                self._body, self._body_wire = body, 0

    def _refuse(self, why: Exception) -> None:
        """Answer what came last with a 400 or 431, after what came before it."""
        self._messages.append((_ErrInfo(status=400, exc=why, message=""), EMPTY_PAYLOAD))
        self._body = EMPTY_PAYLOAD
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _break(self, why: str) -> None:
        """Let the reader of an unfinished body know that it will never be whole: the parser itself does not."""
        if not self._body.is_eof() and self._body.exception() is None:
            self._body.set_exception(web.RequestPayloadError(why))

    def _make_error_handler(self, err_info: _ErrInfo) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
        answering = super()._make_error_handler(err_info)

        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            answer = await answering(request)
            await answer.prepare(request)
            await answer.write_eof()
            await self.linger()
            return answer

        return handler

    async def linger(self) -> None:
        """Read and throw away what a refused client still sends: closing on it would tear the answer away."""
        if self.transport is None:
            return
        self._lingering = _Lingering(self.transport)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._lingering.over.wait()
        except TimeoutError:
            pass  # it had its time

    def handle_error(
        self,
        request: web.BaseRequest,  # noqa: ARG002 - a stand-in: what came could not be read as a request
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - quotes the client's bytes, so it is never repeated
    ) -> web.StreamResponse:
        """Return the answer to what is no HTTP."""
        request_id = uuid7()
        logs.event(log, "not_http", request=request_id, status=status, error=type(exc).__name__)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            what = errors.internal()
        elif isinstance(exc, LineTooLong) or "Too many headers" in str(exc):
            what = errors.headers_too_large()
        else:
            what = errors.bad_request("This is not a well-formed HTTP/1.1 request.", close=True)
        answer = problem_document.response(what, request_id=request_id, instance="")
        dress(answer, request_id)
        answer.force_close()
        return answer


class _Lingering:
    """What a refused client still sends, counted and thrown away."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._left = DRAIN_BYTES
        self.over = asyncio.Event()

    def discard(self, size: int) -> None:
        """Take note of `size` more bytes; beyond the bound nothing more is read."""
        self._left -= size
        if self._left < 0 and self._transport.is_reading():
            self._transport.pause_reading()


def _has_one_framing(message: RawRequestMessage) -> bool:
    """Whether there is no transfer coding but `chunked`, which only HTTP/1.1 has: a proxy may read others its way."""
    if hdrs.TRANSFER_ENCODING not in message.headers:
        return True
    codings = message.headers.getall(hdrs.TRANSFER_ENCODING)
    return message.version == HttpVersion11 and [coding.strip(" \t").lower() for coding in codings] == ["chunked"]
