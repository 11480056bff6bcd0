"""What the spans of a node say: one for each run that was licensed, one for each start whose holder vanished.

Owns how a decision becomes the end of a span. Where there are no traces a delivery's roads are what they were: nothing
of this is called for any item.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from consumer.claim import Reclaim
from consumer.link import Link
from consumer.session import Delivery
from consumer.verdict import Decision
from gateway.contract.envelope import Envelope
from gateway.contract.outcomes import UNCHARGED, Outcome
from gateway.contract.topology import Lane, Topology
from gateway.tracing import Traces
from gateway.tracing.conventions import Error, processing, settling

Road = Callable[..., Awaitable[Decision | None]]
"""Leads from a claim to what was done; to None where nothing was: a copy was dropped, or a loss waits to be judged."""

_UNBLAMED: Final = frozenset({Outcome.SUCCEEDED, *UNCHARGED})
_CUT_OFF: Final = Error(type="cut_off", detail="its node ended, or lost the broker, before this was settled")


class TracedRoads:
    """The roads of one lane's deliveries, with spans along them."""

    def __init__(self, traces: Traces, topology: Topology, lane: Lane) -> None:
        self._traces = traces
        self._queue = topology.lane_queue(lane)
        self._lane = lane

    def of_runs(self, road: Road) -> Road:
        """Return the road of licensed runs: it is given the context of its span as `trace`, for the handler."""
        if not self._traces.is_on:
            return road

        async def traced(link: Link, delivery: Delivery, envelope: Envelope, *others: Any, **known: Any) -> None:
            operation = processing(envelope, delivery.wire.message_id, self._queue, self._lane)
            span = self._traces.begin(operation, envelope.trace)
            attributes: dict[str, Any] = {}
            error: Error | None = _CUT_OFF
            try:
                done = await road(link, delivery, envelope, *others, trace=span.context, **known)
                attributes, error = end_of(done)
            finally:
                span.end(attributes, error)

        return traced

    def of_reclaims(self, road: Road) -> Road:
        """Return the road of reclaims: the span of a run is lost with its node, so whoever ends it tells of it."""
        if not self._traces.is_on:
            return road

        async def traced(link: Link, delivery: Delivery, reclaim: Reclaim, *others: Any) -> None:
            began = time.time()
            done = await road(link, delivery, reclaim, *others)
            if done is not None:
                operation = settling(reclaim.envelope, delivery.wire.message_id, self._queue, self._lane)
                self._traces.begin(operation, reclaim.envelope.trace, at=began).end(*end_of(done))

        return traced


def end_of(done: Decision | None) -> tuple[dict[str, Any], Error | None]:
    """Return what was done about a start, and what there is to blame on it."""
    if done is None:
        return {"lazaretto.verdict": "dropped"}, None
    record = done.record
    said = {
        "lazaretto.verdict": done.verdict,
        "lazaretto.outcome": done.outcome,
        "lazaretto.reason": done.reason,
        "lazaretto.delay": done.delay or None,
        "lazaretto.code": record and record.code,
        "lazaretto.node": record and record.node,
        "lazaretto.worker": record and record.worker,
        "lazaretto.run.seconds": record and record.seconds,
    }
    attributes = {name: value for name, value in said.items() if value}
    is_blamed = done.outcome is not None and done.outcome not in _UNBLAMED
    return attributes, Error(type=str(done.outcome), detail=done.detail) if is_blamed else None
