"""A span for each request that the door answers, on both ways; the short way's is laid around it.

Owns nothing of an answer. Where there are no traces, neither of the two is there.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from aiohttp import StreamReader, hdrs, web
from aiohttp.http_parser import RawRequestMessage
from aiohttp.typedefs import Middleware
from multidict import CIMultiDict, CIMultiDictProxy

from gateway.connection import Take
from gateway.contract.trace_context import TraceContext
from gateway.ordinary import PATH, Answer
from gateway.serving import TRACE, Handler
from gateway.tracing import Traces
from gateway.tracing.conventions import answered, serving

_PARENT: Final = "traceparent"
_ASKING: Final = frozenset({hdrs.METH_GET, hdrs.METH_HEAD})
"""Who only asks begins no trace: probes, and clients that ask again and again, would have more of them than tickets."""
_STATUS: Final = slice(9, 12)
"""Where an answer's bytes have it: `HTTP/1.1 202 Accepted`."""


def traced(traces: Traces) -> list[Middleware]:
    """Return what goes around all other middlewares: a span, which what comes in follows from."""
    if not traces.is_on:
        return []

    @web.middleware
    async def in_a_span(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method in _ASKING and _PARENT not in request.headers:
            return await handler(request)
        resource = request.match_info.route.resource
        route = None if resource is None else resource.canonical
        span = traces.begin(serving(request.method, request.path, route), TraceContext.of(request.headers))
        request[TRACE] = span.context
        status = int(HTTPStatus.INTERNAL_SERVER_ERROR)
        try:
            answer = await handler(request)
            status = answer.status
        finally:
            span.end(*answered(status))
        return answer

    return [in_a_span]


def traced_take(take: Take, traces: Traces) -> Take:
    """Return the short way with a span around it: to it, the span's context is what the client has sent."""
    if not traces.is_on:
        return take

    def take_in_a_span(
        message: RawRequestMessage, payload: StreamReader, answer: Answer, peer: Callable[[], str]
    ) -> bool:
        if message.method != hdrs.METH_POST or message.path != PATH:
            return take(message, payload, answer, peer)
        span = traces.begin(serving(message.method, PATH, PATH), TraceContext.of(message.headers))

        def end(whole: bytes) -> None:
            answer(whole)
            span.end(*answered(int(whole[_STATUS])))

        # One that is not taken has no end here, so nobody hears of it: the long way begins another.
        return take(_with(message, span.context), payload, end, peer)

    return take_in_a_span


def _with(message: RawRequestMessage, trace: TraceContext) -> RawRequestMessage:
    headers = CIMultiDict(message.headers)
    for name in TraceContext._fields:
        headers.popall(name, None)
    headers.update(trace.headers)
    return message._replace(headers=CIMultiDictProxy(headers))
