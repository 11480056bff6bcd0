"""The door's publisher, with a span for each ticket that it publishes; built in its place where there are traces.

Owns the span from the publish to its fate. What a ticket carries from here on is this span's context.
"""

from collections.abc import Callable
from typing import Any

from gateway.amqp.fate import Ended, Fate
from gateway.amqp.stencil import Message, wire_of
from gateway.contract.topology import Route
from gateway.contract.trace_context import TraceContext
from gateway.publisher import Publisher, Purpose
from gateway.tracing import Span, Traces
from gateway.tracing.conventions import Error, sending


class TracedPublisher(Publisher):
    """A publisher whose tickets are told of."""

    def __init__(self, traces: Traces, *parts: Any, **settings: Any) -> None:
        super().__init__(*parts, **settings)
        self._traces = traces

    def send(
        self,
        wire: Message,
        route: Route,
        told: Ended,
        *,
        purpose: Purpose,
        deadline: float,
        confirmed: Callable[[], None] = lambda: None,
    ) -> None:
        """Publish as every publisher does; a ticket as a span, which ends when its fate is told."""
        if purpose is Purpose.TICKETS:
            wire = wire_of(wire)
            span = self._traces.begin(sending(wire, route), TraceContext.of(wire.headers))
            wire, told = wire.carrying(span.context), _end_before(told, span)
        super().send(wire, route, told, purpose=purpose, deadline=deadline, confirmed=confirmed)


def _end_before(told: Ended, span: Span) -> Ended:
    def end(fate: Fate) -> None:
        span.end({}, None if fate is Fate.CONFIRMED else Error(type=fate))
        told(fate)

    return end
