"""No bytes in a message's properties can stop a reader (P12)."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands
from pamqp.header import ContentHeader

from gateway.amqp import messages
from gateway.contract import unreadable
from gateway.contract.envelope import Malformed, decode, encode_malformed
from gateway.contract.wire import MAX_HEADER_BYTES, headers_size
from tests.support.stranger import nested_headers

HEAD = struct.pack(">HHQ", commands.Basic.frame_id, 0, 4)


def read(payload: bytes) -> commands.Basic.Properties:
    messages.read_any_properties()
    header = ContentHeader()
    header.unmarshal(HEAD + payload)
    return header.properties


@given(payload=st.binary(max_size=300))
def test_any_bytes_are_read(payload: bytes) -> None:
    read(payload)


@given(flags=st.integers(0, 0xFFFE).map(lambda bits: bits & ~1), rest=st.binary(max_size=300))
def test_any_properties_under_any_flags_are_read(flags: int, rest: bytes) -> None:
    read(struct.pack(">H", flags) + rest)


@pytest.mark.parametrize("depth", [33, 300, 3000])
def test_tables_nested_deeper_than_anybody_writes_them_become_a_mark(depth: int) -> None:
    payload = nested_headers(depth)
    assert unreadable.MARK in (read(payload).headers or {})


def test_properties_that_can_be_read_are_left_as_they_are() -> None:
    written = commands.Basic.Properties(headers={"a": {"b": [1, "x"]}}, correlation_id="9417", delivery_mode=2)
    flags_and_values = ContentHeader(0, 4, written).marshal()[12:]
    assert dict(read(flags_and_values)) == dict(written)


def test_marked_message_is_malformed_and_fits_into_quarantine() -> None:
    properties = read(struct.pack(">H", 0x2000) + b"\xff" * 5000)
    item = decode(messages.received(properties, b"body"))
    assert isinstance(item, Malformed)
    assert "cannot be decoded" in item.detail
    assert headers_size(encode_malformed(item, reason="malformed").headers) <= MAX_HEADER_BYTES
