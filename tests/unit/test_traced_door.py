"""What is laid around the door's two ways and its publishes where there are traces; and that else nothing is."""

import asyncio

import pytest
from aiohttp import HttpVersion11, StreamReader
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from opentelemetry.trace import StatusCode
from yarl import URL

from gateway.amqp.fate import Fate
from gateway.contract.topology import Lane, Topology
from gateway.contract.wire import Wire
from gateway.metrics import Metrics
from gateway.ordinary import Answer
from gateway.publisher import Purpose
from gateway.traced_publisher import TracedPublisher
from gateway.traced_requests import traced, traced_take
from gateway.tracing import OFF
from tests.unit.tracing.recorded import Recorded

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class _ShortWay:
    """Stands where the short way does, and keeps what it was handed."""

    def __init__(self, answered: bytes | None) -> None:
        self.messages: list[RawRequestMessage] = []
        self._answered = answered

    def take(self, message: RawRequestMessage, _: StreamReader, answer: Answer, __: object) -> bool:
        self.messages.append(message)
        if self._answered is not None:
            answer(self._answered)
        return self._answered is not None


def _message(path: str = "/v1/tickets", *headers: tuple[str, str]) -> RawRequestMessage:
    given = CIMultiDictProxy(CIMultiDict(headers))
    return RawRequestMessage(
        method="POST",
        path=path,
        version=HttpVersion11,
        headers=given,
        raw_headers=(),
        should_close=False,
        compression=None,
        upgrade=False,
        chunked=False,
        url=URL(path),
    )


def _body() -> StreamReader:
    return StreamReader(BaseProtocol(asyncio.get_running_loop()), 2**16, loop=asyncio.get_running_loop())


async def test_the_short_way_goes_on_from_the_span_as_if_the_client_had_sent_it() -> None:
    traces, way, sent = Recorded(), _ShortWay(b"HTTP/1.1 503 Service Unavailable\r\n\r\n"), list[bytes]()
    came = _message("/v1/tickets", ("TraceParent", f"00-{TRACE}-{SPAN}-01"), ("X-Kept", "1"), ("X-Kept", "2"))
    assert traced_take(way.take, traces)(came, _body(), sent.append, str)
    (told,) = traces.spans
    assert told.parent is not None
    assert f"{told.parent.span_id:016x}" == SPAN
    assert (told.attributes or {})["http.response.status_code"] == 503
    assert told.status.status_code is StatusCode.ERROR
    (handed,) = way.messages
    assert handed.headers.getall("traceparent") == [f"00-{TRACE}-{told.context.span_id:016x}-01"]
    assert handed.headers.getall("X-Kept") == ["1", "2"]
    assert sent == [b"HTTP/1.1 503 Service Unavailable\r\n\r\n"]


async def test_what_the_short_way_does_not_take_is_told_of_on_the_long_one_alone() -> None:
    traces, way = Recorded(), _ShortWay(None)
    other = _message("/v1/tickets:check")
    take = traced_take(way.take, traces)
    assert not take(_message(), _body(), lambda _: None, str)
    assert not take(other, _body(), lambda _: None, str)
    assert traces.spans == ()
    assert way.messages[1] is other


def test_without_traces_nothing_is_laid_around_anything() -> None:
    take = _ShortWay(None).take
    assert traced_take(take, OFF) == take
    assert traced(OFF) == []


@pytest.mark.parametrize(("purpose", "told"), [(Purpose.TICKETS, ["disconnected"]), (Purpose.JOURNAL, [])])
async def test_a_ticket_that_is_not_confirmed_is_an_error_with_its_fate_and_the_journal_is_no_ticket(
    purpose: Purpose, told: list[str]
) -> None:
    traces, fates = Recorded(), list[Fate]()
    publisher = TracedPublisher(
        traces, ["amqp://127.0.0.1:9/"], name="nobody", metrics=Metrics(), max_inflight=1, max_inflight_bytes=1
    )
    publisher.send(Wire(body=b"hello"), Topology().to_lane(Lane.WORK), fates.append, purpose=purpose, deadline=1.0)
    assert fates == [Fate.DISCONNECTED]
    assert [(span.attributes or {})["error.type"] for span in traces.spans] == told
