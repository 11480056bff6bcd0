"""A handler with a tracer of its own, made as the operators' page says; every other kind is run as in all tests."""

import json
import os
from functools import cache
from pathlib import Path

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from consumer.handler import Run, at_exit
from tests.support import handlers

HANDED = ".handed"
"""Of a file beside that of the starts: the headers that the run was handed."""


@cache
def tracer() -> Tracer:
    """Return the worker's tracer, begun by its first ticket."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    at_exit(provider.shutdown)
    return provider.get_tracer("a handler")


def handle(run: Run) -> None:
    """Make a span of its own for tickets of the kind `traced`."""
    if run.ticket.kind != "traced":
        return handlers.handle(run)
    Path(os.environ[handlers.STARTS] + HANDED).write_text(json.dumps(run.trace_headers))
    context = TraceContextTextMapPropagator().extract(run.trace_headers)
    attributes = {"messaging.message.conversation_id": run.ticket.id}
    with tracer().start_as_current_span("ask the model", context=context, attributes=attributes):
        return None
