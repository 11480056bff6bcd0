"""What a node's spans say of what became of a start; and that without traces nothing stands on the road."""

from dataclasses import replace
from typing import Any, cast

import pytest

from consumer.briefing import briefing
from consumer.claim import Reclaim
from consumer.endings import order
from consumer.link import Link
from consumer.pipe import ORDERS, Order, decode, encode
from consumer.session import Delivery, SessionLost
from consumer.settings import Settings
from consumer.traced import TracedRoads, end_of
from consumer.verdict import Decision
from gateway.contract.envelope import Envelope
from gateway.contract.history import RunRecord
from gateway.contract.ids import TicketId
from gateway.contract.journal import Verdict
from gateway.contract.outcomes import CHARGED, Outcome, Reason
from gateway.contract.topology import Lane, Topology
from gateway.contract.trace_context import TraceContext
from gateway.contract.wire import Wire
from gateway.tracing import OFF
from gateway.tracing.conventions import Error
from tests.unit.tracing.recorded import Recorded

PARENT = "b7ad6b7169203331"
ITEM = Envelope(
    ticket=TicketId("9417"),
    kind="support.ticket",
    body=b"hello",
    content_type="text/plain",
    traceparent=f"00-0af7651916cd43dd8448eb211c80319c-{PARENT}-01",
)
LINK = cast("Link", None)
DELIVERY = Delivery(wire=Wire(body=b"", message_id="m-1"), tag=1, redelivered=False, session=cast("Any", None))


def _decision(outcome: Outcome, **more: Any) -> Decision:
    record = RunRecord(attempt=1, outcome=outcome, node="n-1", worker=77, started=1000.0, seconds=0.5, code="signal:9")
    known = {"verdict": Verdict.RETRY, "attempt": 2, "crashes": 0, "interruptions": 0, "record": record, **more}
    return Decision(outcome=outcome, **known)


def _roads(traces: Recorded) -> TracedRoads:
    return TracedRoads(traces, Topology(), Lane.WORK)


@pytest.mark.parametrize("outcome", [*sorted(CHARGED), Outcome.INADMISSIBLE, Outcome.MALFORMED])
def test_what_the_ticket_did_is_an_error_with_the_sentence_of_its_evidence(outcome: Outcome) -> None:
    attributes, error = end_of(_decision(outcome, detail="its worker died of signal 9", delay=1.5))
    assert error == Error(type=outcome, detail="its worker died of signal 9")
    assert attributes == {
        "lazaretto.outcome": outcome,
        "lazaretto.verdict": "retry",
        "lazaretto.delay": 1.5,
        "lazaretto.code": "signal:9",
        "lazaretto.node": "n-1",
        "lazaretto.worker": 77,
        "lazaretto.run.seconds": 0.5,
    }


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.RELEASED, Outcome.OUTAGE, Outcome.DEPENDENCY])
def test_what_was_no_doing_of_the_ticket_is_no_error(outcome: Outcome) -> None:
    attributes, error = end_of(_decision(outcome))
    assert (attributes["lazaretto.outcome"], error) == (outcome, None)


def test_an_end_without_a_run_has_its_reason_and_a_dropped_copy_only_that() -> None:
    ended = _decision(Outcome.FAILED, verdict=Verdict.QUARANTINE, record=None, reason=Reason.ATTEMPTS_EXHAUSTED)
    attributes, _ = end_of(ended)
    assert attributes == {
        "lazaretto.outcome": "failed",
        "lazaretto.verdict": "quarantine",
        "lazaretto.reason": "attempts_exhausted",
    }
    assert end_of(None) == ({"lazaretto.verdict": "dropped"}, None)


@pytest.mark.parametrize("parent", [None, "\udcff", "00-aa-bb-01"])
def test_a_worker_is_told_of_no_place_in_a_trace_where_there_is_none_to_go_on_from(parent: str | None) -> None:
    policy = Settings(handler="a:b").policies.of(ITEM.kind)
    told = briefing(order(replace(ITEM, traceparent=parent, tracestate="\udcff"), policy, run="r-1"))
    assert (type(told), told.trace_headers) == (Order, {})


def test_a_worker_is_told_of_the_span_where_there_is_one_and_else_of_what_came() -> None:
    policy = Settings(handler="a:b").policies.of(ITEM.kind)
    span = TraceContext(f"00-{'1' * 32}-{'2' * 16}-01", "a=b")
    told = [briefing(order(ITEM, policy, run="r-1", trace=trace)) for trace in (span, None)]
    assert [decode(encode(one), ORDERS).trace_headers for one in told] == [span.headers, ITEM.trace.headers]


def test_without_traces_the_roads_are_what_they_were() -> None:
    async def road(*_: Any) -> None:
        raise AssertionError("nobody goes here")

    roads = TracedRoads(OFF, Topology(), Lane.WORK)
    assert roads.of_runs(road) is road
    assert roads.of_reclaims(road) is road


async def test_a_run_is_given_the_context_of_its_own_span_and_its_item_keeps_what_it_came_with() -> None:
    traces, given = Recorded(), []

    async def road(_: Link, __: Delivery, envelope: Envelope, *, run: str, trace: TraceContext) -> Decision:
        given.append((envelope, run, trace))
        return _decision(Outcome.SUCCEEDED, verdict=Verdict.ACK)

    await _roads(traces).of_runs(road)(LINK, DELIVERY, ITEM, run="r-1")
    (told,) = traces.spans
    assert given == [(ITEM, "r-1", TraceContext(f"00-{told.context.trace_id:032x}-{told.context.span_id:016x}-01"))]
    assert told.parent is not None
    assert (told.name, f"{told.parent.span_id:016x}") == ("process tickets.work", PARENT)


async def test_a_run_whose_session_is_lost_before_it_is_settled_is_told_of_as_cut_off() -> None:
    traces = Recorded()

    async def road(*_: Any, **__: Any) -> Decision:
        raise SessionLost("the broker went away")

    with pytest.raises(SessionLost):
        await _roads(traces).of_runs(road)(LINK, DELIVERY, ITEM)
    (told,) = traces.spans
    assert told.attributes is not None
    assert told.attributes["error.type"] == "cut_off"


@pytest.mark.parametrize("done", [None, _decision(Outcome.LOST, detail="its holder vanished")], ids=["waits", "lost"])
async def test_a_start_whose_holder_vanished_is_told_of_once_it_is_judged(done: Decision | None) -> None:
    traces = Recorded()

    async def road(*_: Any) -> Decision | None:
        return done

    await _roads(traces).of_reclaims(road)(LINK, DELIVERY, Reclaim(ITEM, Outcome.LOST), None)
    found = [(told.name, told.status.description) for told in traces.spans]
    assert found == ([] if done is None else [("settle tickets.work", "its holder vanished")])
