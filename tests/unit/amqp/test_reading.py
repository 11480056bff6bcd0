"""What is read by hand is what the client library reads, for whatever bytes; nothing cannot be read."""

import struct
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, encode
from pamqp.header import ContentHeader

from gateway.amqp import messages, reading
from gateway.amqp.frames import content_header
from gateway.contract import unreadable
from gateway.contract.wire import Wire
from tests.support.stranger import nested_headers

HEAD = struct.pack(">HHQ", commands.Basic.frame_id, 0, 4)
BODY = b"body"

_texts = st.text(max_size=12)
_numbers = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 1, 127, 128, 255, 32768, 65535, 2**31, 2**32])
_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        _numbers,
        st.floats(allow_nan=False, width=32),
        _texts,
        st.binary(max_size=8).map(bytearray),
        st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(2100, 1, 1)).map(  # noqa: DTZ001  hypothesis wants them naive
            lambda at: at.replace(tzinfo=UTC, microsecond=0)
        ),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_texts, inner, max_size=3)),
    max_leaves=8,
)
_maybe = st.none() | _texts
_properties = st.builds(
    commands.Basic.Properties,
    content_type=_maybe,
    content_encoding=_maybe,
    headers=st.none() | st.dictionaries(_texts, _values, max_size=5),
    delivery_mode=st.sampled_from([None, 1, 2]),
    priority=st.sampled_from([None, 0, 9]),
    correlation_id=_maybe,
    reply_to=st.sampled_from([None, None, None, "me"]),
    expiration=st.sampled_from([None, None, None, "1000"]),
    message_id=_maybe,
    timestamp=st.none() | st.integers(0, 2**33).map(lambda at: datetime.fromtimestamp(at, UTC)),
    message_type=_maybe,
    user_id=st.sampled_from([None, None, None, "guest"]),
    app_id=_maybe,
)


@pytest.fixture(autouse=True, scope="module")
def _patient() -> None:
    messages.read_any_properties()


def _by_the_client(header: bytes) -> Wire:
    found = ContentHeader()
    found.unmarshal(header)
    return messages.received(found.properties, BODY)


def _same(header: bytes) -> None:
    # By their form, too: True is 1 for Python, and not for those who count.
    assert repr(reading.received(header, BODY)) == repr(_by_the_client(header))


@given(_properties)
def test_properties_are_read_as_the_client_reads_them(properties: commands.Basic.Properties) -> None:
    _same(ContentHeader(0, len(BODY), properties).marshal())


@given(_properties, st.data())
def test_wounded_properties_are_read_as_the_client_reads_them(
    properties: commands.Basic.Properties, data: st.DataObject
) -> None:
    raw = bytearray(ContentHeader(0, len(BODY), properties).marshal())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(12, len(raw) - 1))] = data.draw(st.integers(0, 255))
    _same(bytes(raw[: data.draw(st.integers(12, len(raw)))]))


@given(st.binary(max_size=300))
def test_any_bytes_are_read(payload: bytes) -> None:
    _same(HEAD + payload)


@given(st.integers(0, 0xFFFE).map(lambda bits: bits & ~1), st.binary(max_size=300))
def test_any_properties_under_any_flags_are_read(flags: int, rest: bytes) -> None:
    _same(HEAD + struct.pack(">H", flags) + rest)


@given(st.dictionaries(_texts, _values, max_size=4), _maybe)
def test_what_we_write_we_read(headers: dict[str, Any], kind: str | None) -> None:
    wire = Wire(body=BODY, headers=headers, message_id="m", correlation_id="9417", type=kind, timestamp=1_700_000_000.0)
    assert reading.received(content_header(wire, "m"), BODY) == wire


@pytest.mark.parametrize("depth", [2, 8, 9, 33, 3000])
def test_tables_are_read_as_deep_as_anybody_writes_them(depth: int) -> None:
    header = HEAD + nested_headers(depth)
    _same(header)
    assert (unreadable.MARK in reading.received(header, BODY).headers) == (depth > unreadable.MAX_DEPTH)


def test_a_table_whose_size_is_a_lie_is_left_to_the_client() -> None:
    table = encode.field_table({"a": 1, "b": "text"})
    for lie in (0, 3, len(table) - 5, len(table) - 3, 2**31 - 1):
        _same(HEAD + struct.pack(">H", 1 << 13) + struct.pack(">I", lie) + table[4:])
