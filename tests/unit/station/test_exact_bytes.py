"""What arrives is kept byte for byte in both stores, and sent again as it came, whatever it holds."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import strategies as st

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Envelope
from gateway.contract.ids import TicketId
from gateway.contract.wire import Wire
from gateway.settings import StationSettings, load
from gateway.station import arrival as arrivals
from gateway.station import holding, replays
from gateway.station.amqp import freeze, thaw
from gateway.station.decided import Decision
from gateway.station.desk import routes
from gateway.station.replays import Begun, Plan
from gateway.station.store import Store
from gateway.station.successor import next_generation
from gateway.station.tables.items import items
from gateway.station.vitals import Vitals

LARGE = 16 << 20
EVERY_BYTE = bytes(range(256))
HOSTILE = "\x00\x1b[2J\u202e<script>' OR 1=1; --\ufffe\U000e0041"


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    yield opened
    await opened.close()


async def _kept(store: Store, wire: Wire) -> Any:
    """Take a message in twice, and return its one row."""
    for is_new in (True, False):
        async with store.writing() as transaction:
            found = arrivals.read(wire)
            name = await holding.take_in(transaction, found, channels=["log"], now=1.0)
        assert (name is not None) is is_new
    async with store.reading() as transaction:
        return (await transaction.execute(sa.select(items))).one()


@pytest.mark.parametrize(
    "body",
    [
        EVERY_BYTE,
        b"\xed\xa0\x80 \xff\xfe\x00",
        "lone \ud83d".encode("utf-8", "surrogatepass"),
        EVERY_BYTE * (LARGE >> 8),
    ],
    ids=["every byte", "no text", "lone surrogate", "16 MiB"],
)
async def test_a_body_is_kept_and_sent_again_byte_for_byte(store: Store, body: bytes) -> None:
    foreign = {"their": HOSTILE, "raw": EVERY_BYTE, "deep": {"n": [1, None, True, -(2**40), HOSTILE]}}
    sent = envelopes.encode(
        Envelope(
            ticket=TicketId("t"),
            kind="k",
            body=body,
            content_type="text/plain; charset=utf-16",
            reason="rejected",
            detail=HOSTILE,
            foreign=foreign,
        )
    )
    row = await _kept(store, sent)
    assert row.body == body
    assert thaw(row.properties, row.body) == sent
    again = next_generation(row)
    assert (again.body, again.foreign, again.content_type) == (body, foreign, "text/plain; charset=utf-16")


async def test_text_with_nul_has_its_pages_in_both_stores_and_is_sent_again_as_it_came(store: Store) -> None:
    body, detail = b"before\x00after", "KeyError: 'a\x00b'"
    item = Envelope(ticket=TicketId("t"), kind="k", body=body, content_type="text/plain", reason="rejected")
    await _kept(store, envelopes.encode(replace(item, detail=detail, foreign={"x": "c\x00d"})))
    application = routes.application(load(StationSettings, desk_user="ana"), store, Vitals())
    told = ""
    async with TestClient(TestServer(application)) as desk:
        for path in ("/", "/items", "/items/t", "/items/t/review", "/v1/quarantine/t"):
            async with desk.get(path) as answer:
                told = await answer.text()
                assert answer.status == 200, told
                assert "\x00" not in told, path
        assert "a\ufffdb" in told
        async with desk.get("/items/t/0/body") as answer:
            assert await answer.read() == body
        async with desk.post("/v1/quarantine/t/discard", json={"reason": "a\x00b"}) as answer:
            assert answer.status == 400, "a reason that no store keeps as it is said is refused"
    async with store.writing() as transaction:
        begun = await replays.begin(transaction, "t", Decision(by="ana", reason="fixed"), Plan())
    assert isinstance(begun, Begun)
    assert begun.wire is not None
    assert (begun.wire.body, begun.wire.headers["x"]) == (body, "c\x00d")


async def test_a_message_that_nobody_can_read_is_kept_byte_for_byte(store: Store) -> None:
    raw = Wire(body=EVERY_BYTE, headers={"lz-schema": 99, "x": EVERY_BYTE, HOSTILE: HOSTILE}, message_id="m", type="t")
    row = await _kept(store, raw)
    assert thaw(row.properties, row.body) == raw


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.binary(max_size=50) | st.text(max_size=50),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=20), inner, max_size=3),
    max_leaves=10,
)


@given(body=st.binary(max_size=2000), headers=st.dictionaries(st.text(min_size=1, max_size=30), _VALUES, max_size=5))
def test_whatever_headers_hold_is_there_again_when_it_is_thawed(body: bytes, headers: dict[str, Any]) -> None:
    wire = Wire(body=body, headers=headers, message_id="m", correlation_id="c")
    assert thaw(freeze(wire), body) == wire
