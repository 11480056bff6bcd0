"""Reading a request's body under caps, and answering a client that is still sending.

Owns every byte between the socket and the preflight: declared, counted, inflated, in time. Never uses aiohttp's own
`read`, `text`, `json`, `post` or `multipart`, whose limits have holes. The server must run with `auto_decompress=False`
(an argument of `web.AppRunner`), or the bytes come inflated without a cap; if it does not, encoded bodies are refused.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from aiohttp import web

from gateway.admission import Facts, Refused, Rule, Violation, too_large
from gateway.preflight.inflation import SUPPORTED, Broken, Coding, Inflater, Overflow

CODED_ALLOWANCE = 65_536
"""Bytes that a coded body may have on the wire beyond the cap on its content: what does not compress grows a little."""

DRAIN_BYTES = 16_777_216
DRAIN_SECONDS = 5.0
"""How much, and for how long, is read and thrown away after a refusal, so that a client that sends first and reads
afterwards learns why. Beyond either, the connection ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How slowly a body may come: `bytes` of it, or its end, in each `seconds`."""

    bytes: int
    seconds: float


PACE = Pace(bytes=4096, seconds=5.0)
"""A modem's pace, hiccups included. Who is slower holds room of others for as long as it pleases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A whole body with its content encoding undone; `wire_bytes` is what was sent."""

    content: bytes
    wire_bytes: int


class Hold(Protocol):
    """Asks for room for a body that has `size` bytes of content by now; False when there is none."""

    def __call__(self, size: int, /, *, whole: bool) -> bool:
        """`whole` says that nothing more will come."""


@runtime_checkable
class Lingers(Protocol):
    """A connection that can throw away what comes where no body can be read any more."""

    async def linger(self) -> None:
        """Return when the client has stopped sending, or has had its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRoom:
    """The body was given up because there was no room to hold more of it: says nothing about the body."""


def _any_size(_: int, *, whole: bool) -> bool:  # noqa: ARG001 - the shape of a room that never fills
    return True


async def read_body(
    request: web.BaseRequest, *, max_bytes: int, seconds: float, pace: Pace = PACE, hold: Hold = _any_size
) -> Body | Refused | NoRoom:
    """Read the body of `request`, of at most `max_bytes` of content, within `seconds` from now and not below `pace`.

    `hold(size, whole=...)` is asked for room for the content so far. Stops reading at the first refusal; answer it with
    `answer_while_sending`. Memory: the cap, once while reading and once more while joining.
    """
    facts = Facts(bytes=0, content_type=request.headers.get("Content-Type"))
    coding = Coding.named(",".join(request.headers.getall("Content-Encoding", ())))
    if coding is None:
        supported = ", ".join(SUPPORTED)
        message = f"this content encoding is not supported; supported are {supported}"
        return Refused.because(
            Violation(rule=Rule.UNSUPPORTED_CONTENT_ENCODING, message=message, limit=supported), facts
        )
    max_wire = max_bytes if coding is Coding.IDENTITY else max_bytes + CODED_ALLOWANCE
    declared = request.content_length
    if declared is not None and declared > max_wire:
        message = f"the body is declared to have {declared} bytes; at most {max_bytes} are admitted"
        return Refused.because(too_large(limit=max_bytes, actual=declared, message=message), facts)
    if coding is Coding.IDENTITY and request.content.is_eof() and request.content.exception() is None:
        # All of it has come with its head, as small tickets do: nothing to wait for.
        content = request.content.read_nowait()
        if len(content) <= max_bytes:
            return Body(content=content, wire_bytes=len(content)) if hold(len(content), whole=True) else NoRoom()
        violation = _violation(Overflow(at_least=len(content)), max_bytes)
        return Refused.because(violation, replace(facts, bytes=len(content)))
    return await _read(request, coding, max_bytes=max_bytes, max_wire=max_wire, seconds=seconds, pace=pace, hold=hold)


async def _read(
    request: web.BaseRequest,
    coding: Coding,
    *,
    max_bytes: int,
    max_wire: int,
    seconds: float,
    pace: Pace,
    hold: Hold,
) -> Body | Refused | NoRoom:
    inflater = Inflater(coding, max_bytes=max_bytes)
    wire_bytes = 0
    violation: Violation | None = None
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    due = pace.bytes
    try:
        async with asyncio.timeout_at(min(end, clock() + pace.seconds)) as patience:
            async for piece in request.content.iter_any():
                wire_bytes += len(piece)
                if wire_bytes >= due:
                    due = wire_bytes + pace.bytes
                    patience.reschedule(min(end, clock() + pace.seconds))
                problem = Overflow(at_least=wire_bytes) if wire_bytes > max_wire else inflater.feed(piece)
                if problem is not None:
                    violation = _violation(problem, max_bytes)
                    break
                if not hold(inflater.held, whole=request.content.is_eof()):
                    return NoRoom()
                if coding is not Coding.IDENTITY:
                    # What has arrived already is read without a pause, and inflating it may take its time.
                    await asyncio.sleep(0)
    except TimeoutError:
        late = clock() >= end
        message = f"the body did not arrive within {seconds:g} seconds"
        if not late:
            message = f"less than {pace.bytes} bytes of the body arrived within {pace.seconds:g} seconds"
        limit = f"{seconds if late else pace.seconds:g}"
        violation = Violation(rule=Rule.BODY_TOO_SLOW, message=message, limit=limit, actual=wire_bytes, unit="bytes")
    except (web.RequestPayloadError, ConnectionError):
        violation = Violation(rule=Rule.BODY_BROKEN, message="the body ended early or is framed wrongly")
    if violation is None:
        hold(inflater.held, whole=True)  # takes no further room: the end may come by itself, after the last piece
        content = inflater.finish()
        if isinstance(content, bytes):
            return Body(content=content, wire_bytes=wire_bytes)
        violation = _violation(content, max_bytes)
    return Refused.because(violation, Facts(bytes=wire_bytes, content_type=request.headers.get("Content-Type")))


def _violation(problem: Broken | Overflow, max_bytes: int) -> Violation:
    match problem:
        case Overflow(at_least=size):
            message = f"the body has more than {max_bytes} bytes"
            return too_large(limit=max_bytes, actual=size, message=message)
        case Broken(detail=detail):
            return Violation(rule=Rule.BROKEN_CONTENT_ENCODING, message=detail)


async def answer_while_sending(
    request: web.BaseRequest,
    response: web.StreamResponse,
    *,
    drain_bytes: int = DRAIN_BYTES,
    drain_seconds: float = DRAIN_SECONDS,
) -> web.StreamResponse:
    """Send `response` now and end the connection, after giving a client that is still sending time to read it.

    Return what it returns from the handler. For a client that is too slow already, pass `drain_seconds=0`.
    """
    if request.content.is_eof():
        return response
    response.force_close()
    await response.prepare(request)
    await response.write_eof()
    try:
        async with asyncio.timeout(drain_seconds):
            await _drain(request, drain_bytes)
    except web.RequestPayloadError:
        if isinstance(request.protocol, Lingers):
            await request.protocol.linger()
    except (TimeoutError, ConnectionError):
        pass  # whatever ends the draining, the answer is out
    if not request.content.is_eof() and request.protocol is not None:
        # aiohttp would go on reading for its lingering time, without a bound on the bytes.
        request.protocol.force_close()
    return response


async def _drain(request: web.BaseRequest, drain_bytes: int) -> None:
    drained = 0
    while not request.content.at_eof():
        drained += len(await request.content.readany())
        if drained > drain_bytes:
            # No longer read, the client's sending comes to a halt; it keeps what is left of the time to read.
            await asyncio.get_running_loop().create_future()
