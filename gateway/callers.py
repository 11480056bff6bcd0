"""At the threshold: who asks, from where, and whether that may be now. The middleware around every route.

Owns which paths are open to strangers and the answers to them. A path that nobody thought of needs a key.
"""

import logging
import time
from collections.abc import Sequence
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from gateway import caller_problems
from gateway.client_address import Network, client_address
from gateway.clients import Caller, Clients, Stranger
from gateway.contract import logs
from gateway.metrics import Metrics
from gateway.problem_document import Problem
from gateway.serving import ADDRESS, CLIENT, REQUEST_ID, Handler, problem

log = logging.getLogger("gateway.callers")

CALLER: Final = web.RequestKey("caller", Caller)

_OPEN: Final = frozenset({"/healthz", "/readyz", "/v1/limits", "/openapi.json", "/asyncapi.json"})
"""They tell nothing of any client or ticket, and probes have no keys."""
_METRICS: Final = "/metrics"


def threshold(clients: Clients, metrics: Metrics, *, trusted: Sequence[Network], loopback: bool) -> Middleware:
    """Return the middleware of a door; `loopback` tells whether only this machine reaches it."""

    @web.middleware
    async def at_the_threshold(request: web.Request, handler: Handler) -> web.StreamResponse:
        request[ADDRESS] = _address(request, trusted)
        if request.path in _OPEN or (request.path == _METRICS and (loopback or not clients.needed)):
            return await handler(request)
        caller = clients.identify(request.headers.getall("Authorization", ()))
        if isinstance(caller, Stranger):
            metrics.callers_refused.labels(reason=caller).inc()
            logs.event(log, "stranger", request=request[REQUEST_ID], reason=caller, address=request[ADDRESS])
            what = caller_problems.key_required() if caller is Stranger.NO_KEY else caller_problems.key_refused()
            return problem(request, what)
        request[CALLER], request[CLIENT] = caller, caller.client
        forbidden = _forbidden(request, caller, metrics)
        answer = await handler(request) if forbidden is None else problem(request, forbidden)
        if caller.allowance is not None and not answer.prepared:
            answer.headers.update(caller.allowance.fields(time.monotonic()))
        return answer

    return at_the_threshold


def _forbidden(request: web.Request, caller: Caller, metrics: Metrics) -> Problem | None:
    exceeded = None if caller.allowance is None else caller.allowance.request(time.monotonic())
    if exceeded is not None:
        metrics.callers_refused.labels(reason=exceeded.policy).inc()
        return caller_problems.quota_exceeded(exceeded)
    if request.path == _METRICS and caller.key is not None and not caller.key.metrics:
        return caller_problems.metrics_forbidden()
    return None


def _address(request: web.Request, trusted: Sequence[Network]) -> str:
    if not trusted:
        return request.remote or ""
    told = client_address(
        request.remote,
        forwarded=request.headers.getall("Forwarded", ()),
        x_forwarded_for=request.headers.getall("X-Forwarded-For", ()),
        trusted=trusted,
    )
    return told or ""
