"""Traces whose spans stay where a test can look at them, by the library's own exporter for that."""

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gateway.tracing.otlp import OtlpTraces


class Recorded(OtlpTraces):
    """The real thing but for where it sends."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._kept))
        super().__init__(provider)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """Return what has ended, in this order."""
        return self._kept.get_finished_spans()
