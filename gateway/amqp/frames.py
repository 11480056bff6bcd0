"""A publish as bytes of AMQP 0-9-1: method, content header and body frames.

Owns the layout (specification 0-9-1, 2.3.5, 4.2.5 and 4.2.6). Pure. What is the same in every publish is laid out once;
values that are hardly ever sent are left to the client library's own encoder.
"""

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from pamqp import encode
from pamqp.commands import Basic
from pamqp.frame import marshal

from gateway.amqp.stencil import Laid, Message
from gateway.contract.topology import Route
from gateway.contract.wire import Wire, encodable

_FRAME: Final = struct.Struct(">BHI")
_AROUND: Final = _FRAME.size + 1
_END: Final = b"\xce"
_HEADER, _BODY = 2, 3
_CLASS: Final = 60
_LEAST_FRAME_MAX: Final = 4096
_USUAL_FRAME_MAX: Final = 131_072

_INT: Final = struct.Struct(">ci")
_LONG_INT: Final = struct.Struct(">cq")
_SIZE: Final = struct.Struct(">I")
_TIME: Final = struct.Struct(">Q")
_TEXT: Final = struct.Struct(">cI")
_PROPERTIES: Final = struct.Struct(">HHQH")
_LONGEST_SHORT: Final = 255
_FEW: Final = 32
"""Numbers up to here and texts of fewer characters come again and again."""
_YES, _NO = b"t\x01", b"t\x00"
_PERSISTENT: Final = b"\x02"

# Bits of the property flags; the properties themselves follow in this order.
_CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS, _DELIVERY_MODE = 1 << 15, 1 << 14, 1 << 13, 1 << 12
_CORRELATION_ID, _MESSAGE_ID, _TIMESTAMP, _TYPE, _APP_ID = 1 << 10, 1 << 7, 1 << 6, 1 << 5, 1 << 3


class Unencodable(Exception):
    """A message that no frames can carry; the text says what of it."""


class Layout:
    """How one channel writes publishes; `frame_max` is what the broker takes, 0 where it takes any."""

    def __init__(self, *, channel: int, frame_max: int) -> None:
        self._channel = channel
        self._piece = max(_LEAST_FRAME_MAX, frame_max or _USUAL_FRAME_MAX) - _AROUND
        self._methods: dict[Route, bytes] = {}

    def publish(self, wire: Message, message_id: str, route: Route) -> bytes:
        """Return the frames of a persistent, mandatory publish; raises Unencodable."""
        method = self._methods.get(route)
        if method is None:
            publish = Basic.Publish(exchange=route.exchange, routing_key=route.key, mandatory=True)
            method = self._methods[route] = marshal(publish, self._channel)
        header = wire.header if isinstance(wire, Laid) else content_header(wire, message_id)
        if len(header) > self._piece:
            # The broker would close the connection on it, and every publish of every channel with it (D06).
            raise Unencodable(f"the content header has {len(header)} bytes")
        pieces = [method, _FRAME.pack(_HEADER, self._channel, len(header)), header, _END]
        body = wire.body
        for start in range(0, len(body), self._piece):
            piece = body if len(body) <= self._piece else body[start : start + self._piece]
            pieces += (_FRAME.pack(_BODY, self._channel, len(piece)), piece, _END)
        return b"".join(pieces)


def content_header(wire: Wire, message_id: str) -> bytes:
    """Return the payload of a persistent message's content header; raises Unencodable."""
    try:
        return _properties(wire, message_id)
    except (TypeError, ValueError, OverflowError, struct.error) as error:
        raise Unencodable(f"{type(error).__name__}: {error}") from error


def table(values: Mapping[str, Any]) -> bytes:
    """Return a field table; raises Unencodable."""
    try:
        return _table(values)
    except (TypeError, ValueError, OverflowError, struct.error) as error:
        raise Unencodable(f"{type(error).__name__}: {error}") from error


def _properties(wire: Wire, message_id: str) -> bytes:
    flags = _DELIVERY_MODE | _MESSAGE_ID
    parts = [b""]
    if wire.content_type is not None:
        flags |= _CONTENT_TYPE
        parts.append(_constant(wire.content_type))
    if wire.content_encoding is not None:
        flags |= _CONTENT_ENCODING
        parts.append(_constant(wire.content_encoding))
    if wire.headers:
        flags |= _HEADERS
        parts.append(_table(wire.headers))
    parts.append(_PERSISTENT)
    if wire.correlation_id is not None:
        flags |= _CORRELATION_ID
        parts.append(_short(wire.correlation_id))
    parts.append(_short(message_id))
    if wire.timestamp is not None:
        flags |= _TIMESTAMP
        parts.append(_TIME.pack(int(wire.timestamp)))
    if wire.type is not None:
        flags |= _TYPE
        parts.append(_constant(wire.type))
    if wire.app_id is not None:
        flags |= _APP_ID
        parts.append(_constant(wire.app_id))
    parts[0] = _PROPERTIES.pack(_CLASS, 0, len(wire.body), flags)
    return b"".join(parts)


def _short(text: str) -> bytes:
    raw = text.encode()
    if len(raw) > _LONGEST_SHORT:
        raise ValueError(f"a short string of {len(raw)} bytes")
    return bytes((len(raw),)) + raw


@lru_cache(maxsize=1024)
def _constant(text: str) -> bytes:
    """Return a short string of which there are few: names of headers, kinds, types."""
    return _short(text)


@lru_cache(maxsize=4096, typed=True)
def _member(name: str, value: int | str | bool) -> bytes:  # noqa: FBT001 - a header's value
    """Return a name and a value that nearly every message has: counters of a new item, its charset, its client."""
    return _constant(name) + _value(value)


def _table(table: Mapping[str, Any]) -> bytes:
    parts = []
    for name, value in table.items():
        kind = type(value)
        if (kind is int and -_FEW < value < _FEW) or (kind is str and len(value) < _FEW) or kind is bool:
            parts.append(_member(name, value))
        else:
            parts += (_constant(name), _value(value))
    joined = b"".join(parts)
    return _SIZE.pack(len(joined)) + joined


def _value(value: Any) -> bytes:
    kind = type(value)
    if kind is int and -(2**31) <= value < 2**31:
        return _INT.pack(b"I", value)
    if kind is str:
        raw = value.encode()
        return _TEXT.pack(b"S", len(raw)) + bytes(raw)
    if kind is bool:
        return _YES if value else _NO
    if kind is int:
        return _LONG_INT.pack(b"l", value)
    if isinstance(value, Mapping):
        return b"F" + _table(value)
    return encode.encode_table_value(encodable(value))
