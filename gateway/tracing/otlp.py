"""Spans by OpenTelemetry's own library, sent to a collector over OTLP.

Owns the library: nothing else of ours imports it. Spans wait in a bounded queue, and a thread sends them: what is too
much is dropped, what cannot be sent is tried for a few seconds and dropped, and the log is told once in a while.
"""

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span as OtelSpan
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from gateway import __version__
from gateway.contract.logs import event
from gateway.contract.text import printable
from gateway.contract.trace_context import MAX_HEADER, TraceContext
from gateway.tracing.conventions import Error, Operation, Role

log = logging.getLogger("gateway.tracing")

_FLUSH_SECONDS: Final = 2.0
_BETWEEN_LINES: Final = 60.0
"""Seconds between two lines about the same kind of trouble."""
_KINDS: Final = {
    Role.SERVER: SpanKind.SERVER,
    Role.CLIENT: SpanKind.CLIENT,
    Role.PRODUCER: SpanKind.PRODUCER,
    Role.CONSUMER: SpanKind.CONSUMER,
}
_W3C: Final = TraceContextTextMapPropagator()


class OtlpTraces:
    """The spans of one process."""

    is_on: Final = True

    def __init__(self, provider: TracerProvider) -> None:
        self.provider = provider
        self._tracer = provider.get_tracer("lazaretto", __version__)

    @classmethod
    def open(cls, service: str, instance: str) -> "OtlpTraces":
        """Start the thread that sends; the environment says where to, how many are sampled, and how long a queue is.

        Raises ValueError for some of what it may say wrongly; of the rest the library complains, and takes its default.
        """
        library = logging.getLogger("opentelemetry")
        library.addHandler(_Seldom())
        library.propagate = False
        provider = TracerProvider(resource=_resource(service, instance), shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        return cls(provider)

    def begin(self, operation: Operation, parent: TraceContext, *, at: float | None = None) -> "_Span":
        """Begin a span below `parent`, or a trace of its own where that is nothing that can be continued."""
        return _Span(
            self._tracer.start_span(
                printable(operation.name),
                context=_W3C.extract(parent.headers),
                kind=_KINDS[operation.role],
                attributes=_plain(operation.attributes),
                start_time=None if at is None else round(at * 1e9),
            )
        )

    async def close(self) -> None:
        """Have what is left sent by a thread that nobody waits for longer than that."""
        loop, sent = asyncio.get_running_loop(), asyncio.Event()

        def shut_down() -> None:
            self.provider.shutdown()
            with contextlib.suppress(RuntimeError):  # the loop is over, and so is the wait
                loop.call_soon_threadsafe(sent.set)

        threading.Thread(target=shut_down, name="last-spans", daemon=True).start()
        try:
            await asyncio.wait_for(sent.wait(), _FLUSH_SECONDS)
        except TimeoutError:
            event(log, "traces.left_unsent", logging.WARNING, waited=_FLUSH_SECONDS)


class _Span:
    """One span of the library's."""

    __slots__ = ("_span", "context")

    def __init__(self, span: OtelSpan) -> None:
        self._span = span
        own = span.get_span_context()
        parent = f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}"
        state = own.trace_state.to_header()
        self.context = TraceContext(parent, state if 0 < len(state) <= MAX_HEADER else None)  # half of one is none

    def end(self, attributes: Mapping[str, Any], error: Error | None = None) -> None:
        """End it now."""
        said = attributes if error is None else {**attributes, "error.type": error.type}
        self._span.set_attributes(_plain(said))
        if error is not None:
            self._span.set_status(Status(StatusCode.ERROR, printable(error.detail) or None))
        self._span.end()


class _Seldom(logging.Handler):
    """Says in a line of ours what the library complains of, and how often it did since the last line about that."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._due: dict[tuple[str, int], float] = {}
        """By the place in the library's code that complains."""
        self._unsaid = Counter[tuple[str, int]]()

    def emit(self, record: logging.LogRecord) -> None:
        place = record.pathname, record.lineno
        self._unsaid[place] += 1
        if (now := time.monotonic()) < self._due.get(place, now):
            return
        self._due[place] = now + _BETWEEN_LINES
        complaints = self._unsaid.pop(place)
        event(log, "traces.trouble", logging.WARNING, why=record.getMessage(), complaints=complaints)


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what can be written: one text that is no Unicode would cost all spans that are sent with it."""
    return {name: printable(str(value)) if isinstance(value, str) else value for name, value in attributes.items()}


def _resource(service: str, instance: str) -> Resource:
    """Return who sends; where the environment says so, that counts."""
    ours: dict[str, AttributeValue] = {
        "service.name": service,
        "service.namespace": "lazaretto",
        "service.version": __version__,
        "service.instance.id": instance,
        "process.pid": os.getpid(),
    }
    return Resource.create({**ours, **OTELResourceDetector().detect().attributes})
