"""What the library makes of what is said to the seam."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.trace import SpanKind, StatusCode

from gateway.contract.topology import Route
from gateway.contract.trace_context import UNTRACED, TraceContext
from gateway.contract.wire import Wire
from gateway.tracing import Service, TracesUnavailable, open_traces
from gateway.tracing.conventions import Error, Operation, Role, receiving, sending
from gateway.tracing.otlp import OtlpTraces
from tests.unit.tracing.recorded import Recorded

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = TraceContext(f"00-{TRACE}-{SPAN}-01", "rojo=1,congo=2")
SEND = Operation(name="send tickets:work", role=Role.PRODUCER, attributes={"messaging.system": "rabbitmq"})


def test_a_span_is_below_the_context_that_came_and_hands_on_its_own() -> None:
    traces = Recorded()
    span = traces.begin(SEND, SAMPLED)
    span.end({"lazaretto.verdict": "ack"})
    (told,) = traces.spans
    assert told.parent is not None
    assert (f"{told.context.trace_id:032x}", f"{told.parent.span_id:016x}") == (TRACE, SPAN)
    assert span.context == TraceContext(f"00-{TRACE}-{told.context.span_id:016x}-01", "rojo=1,congo=2")
    assert (told.name, told.kind, told.status.status_code) == (SEND.name, SpanKind.PRODUCER, StatusCode.UNSET)
    assert told.attributes == {"messaging.system": "rabbitmq", "lazaretto.verdict": "ack"}


@pytest.mark.parametrize(
    "context",
    [
        UNTRACED,
        TraceContext("00-aa-bb-01"),
        TraceContext(f"00-{'0' * 32}-{SPAN}-01"),
        TraceContext("\udcff\x00", "\udcff"),
        TraceContext(None, "a=b"),
    ],
    ids=["none", "short", "nought", "garbage", "state alone"],
)
def test_what_is_no_context_begins_a_trace(context: TraceContext) -> None:
    traces = Recorded()
    span = traces.begin(SEND, context)
    span.end({})
    (told,) = traces.spans
    assert told.parent is None
    assert told.context.trace_flags.sampled
    found = f"00-{told.context.trace_id:032x}-{told.context.span_id:016x}-{told.context.trace_flags:02x}"
    assert span.context == TraceContext(found)


def test_a_client_that_does_not_sample_is_obeyed_and_its_trace_goes_on() -> None:
    traces = Recorded()
    span = traces.begin(SEND, TraceContext(f"00-{TRACE}-{SPAN}-00"))
    span.end({}, Error(type="crashed"))
    assert traces.spans == ()
    assert (span.context.traceparent or "").startswith(f"00-{TRACE}-")
    assert (span.context.traceparent or "").endswith("-00")


def test_an_error_has_its_word_and_its_sentence() -> None:
    traces = Recorded()
    traces.begin(SEND, UNTRACED).end({}, Error(type="crashed", detail="its worker died of signal 9"))
    (told,) = traces.spans
    assert (told.status.status_code, told.status.description) == (StatusCode.ERROR, "its worker died of signal 9")
    assert told.attributes is not None
    assert told.attributes["error.type"] == "crashed"


def test_what_began_earlier_says_so() -> None:
    traces = Recorded()
    traces.begin(SEND, UNTRACED, at=1000.5).end({})
    assert traces.spans[0].start_time == 1_000_500_000_000


def test_hostile_text_costs_no_span() -> None:
    traces = Recorded()
    wire = Wire(body=b"", headers={"lz-reason": "\ud800\x00"}, correlation_id="\udcff", type="é" * 300)
    traces.begin(sending(wire, Route(exchange="tickets", key="\udc80")), UNTRACED).end(
        {"lazaretto.code": "\ud800"}, Error(type="\ud800", detail="\udfff")
    )
    assert encode_spans(traces.spans).SerializeToString()


TEXT = st.text(alphabet=st.characters(), max_size=60) | st.none()
"""Lone surrogates included: anybody may have sent it."""
COUNTED = ["lz-attempt", "lz-generation", "lz-reason"]
VALUE = TEXT | st.integers() | st.floats() | st.lists(st.integers()) | st.dictionaries(st.text(), st.integers())


@given(parent=TEXT, state=TEXT, kind=TEXT, ticket=TEXT, headers=st.dictionaries(st.sampled_from(COUNTED), VALUE))
def test_nothing_that_a_message_can_say_raises_or_is_left_unsent(
    parent: str | None, state: str | None, kind: str | None, ticket: str | None, headers: dict[str, Any]
) -> None:
    traces = Recorded()
    wire = Wire(body=b"", headers=headers, correlation_id=ticket, type=kind)
    span = traces.begin(receiving(wire, "tickets.quarantine"), TraceContext(parent, state))
    span.end({})
    assert encode_spans(traces.spans).SerializeToString()
    assert span.context.presentable == span.context.headers


def test_a_state_that_no_message_has_room_for_is_left_out() -> None:
    long = ",".join(f"vendor{number}={'x' * 90}" for number in range(9))
    assert Recorded().begin(SEND, TraceContext(SAMPLED.traceparent, long)).context.tracestate is None


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    """The library's own logger, which is as it was afterwards, in an environment that asks for traces."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    found = logging.getLogger("opentelemetry")
    before = found.handlers.copy()
    yield found
    found.handlers[:] = before
    found.propagate = True


def test_the_library_complains_in_a_line_of_ours_and_of_the_same_not_again_within_the_minute(
    library: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    traces = OtlpTraces.open("a-test", "one")
    try:
        with caplog.at_level(logging.INFO, "gateway.tracing"):
            for number in range(3):
                library.getChild("sdk").warning("Queue full, dropping %s.", number)
            library.getChild("exporter").error("Failed to export spans batch.")
        said = [record.__dict__["lazaretto_fields"]["why"] for record in caplog.records]
        assert said == ["Queue full, dropping 0.", "Failed to export spans batch."]
    finally:
        traces.provider.shutdown()


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("name", ["OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"])
def test_what_the_library_makes_nothing_of_is_an_error_of_the_start(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "-1")
    with pytest.raises(TracesUnavailable, match="OpenTelemetry makes nothing of its environment"):
        open_traces(Service.NODE)
