"""A collector of OpenTelemetry, as its senders see one: takes spans over OTLP and HTTP, as protobuf.

Owns one thread and the spans that came. Judges nothing.
"""

import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One span that came."""

    service: str
    name: str
    kind: str
    trace: str
    id: str
    parent: str
    """Empty for the first of a trace."""
    attributes: dict[str, Any]
    is_error: bool
    detail: str
    began: int
    """Unix nanoseconds."""


class Collector:
    """Listens on loopback while it is entered."""

    def __init__(self) -> None:
        self._server = _Server()
        self._thread = threading.Thread(target=self._server.serve_forever, name="collector", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """What a program that is to send its spans here is told, and that it is to do so soon."""
        endpoint = f"http://127.0.0.1:{self._server.server_port}"
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": "50"}

    @property
    def spans(self) -> list[Told]:
        """Return all that came so far."""
        return list(self._server.spans)

    def of_ticket(self, ticket: str) -> list[Told]:
        """Return the spans about a ticket, in the order in which they began, whoever sent his first."""
        found = [span for span in self.spans if span.attributes.get("messaging.message.conversation_id") == ticket]
        return sorted(found, key=lambda span: span.began)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.spans: list[Told] = []


class _Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/v1/traces"
        assert self.headers["Content-Type"] == "application/x-protobuf"
        assert isinstance(self.server, _Server)
        self.server.spans += _read(body)
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *_args: Any) -> None:  # noqa: A002  the name is the base class's
        """Say nothing."""


def _read(body: bytes) -> list[Told]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        _told(span, str(_attributes(of_process.resource.attributes)["service.name"]))
        for of_process in request.resource_spans
        for of_scope in of_process.scope_spans
        for span in of_scope.spans
    ]


def _told(span: Span, service: str) -> Told:
    return Told(
        service=service,
        name=span.name,
        kind=Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        attributes=_attributes(span.attributes),
        is_error=span.status.code == Status.STATUS_CODE_ERROR,
        detail=span.status.message,
        began=span.start_time_unix_nano,
    )


def _attributes(found: Any) -> dict[str, Any]:
    pairs: list[KeyValue] = list(found)
    return {pair.key: getattr(pair.value, str(pair.value.WhichOneof("value"))) for pair in pairs}
