"""A message as the broker sends it: from the payload of its content header, and its body, to plain values.

Owns the layout of the properties (specification 0-9-1, 2.3.5 and 4.2.6). Pure, and fails for no bytes. What usual
programs write is read here; everything else is left to the client library, and is no different for it.
"""

import struct
from typing import Any, Final

from pamqp.header import ContentHeader

from gateway.amqp import messages
from gateway.contract.wire import Wire

BODY_SIZE: Final = struct.Struct(">4xQ")
"""At the start of the header."""
_FLAGS: Final = struct.Struct(">12xH")
_SIZE_VALUE: Final = struct.Struct(">I").unpack_from
_TIME: Final = struct.Struct(">Q")

# Bits of the property flags; the properties themselves follow in this order.
_CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS, _DELIVERY_MODE, _PRIORITY = 1 << 15, 1 << 14, 1 << 13, 1 << 12, 1 << 11
_CORRELATION_ID, _MESSAGE_ID, _TIMESTAMP, _TYPE, _APP_ID = 1 << 10, 1 << 7, 1 << 6, 1 << 5, 1 << 3
_USUAL: Final = (
    _CONTENT_TYPE | _CONTENT_ENCODING | _HEADERS | _DELIVERY_MODE | _PRIORITY
    | _CORRELATION_ID | _MESSAGE_ID | _TIMESTAMP | _TYPE | _APP_ID
)  # fmt: skip
_LATEST: Final = 0xFFFF_FFFF
"""Seconds; what is beyond, the client library takes for something else."""

_MAX_DEPTH: Final = 8
_TEXT, _TABLE, _LIST, _BOOL, _VOID = b"SFAtV"
_INT: Final = ord("I")
_INT_VALUE: Final = struct.Struct(">i").unpack_from
_FIXED: Final = {
    ord(kind): struct.Struct(f">{layout}")
    for kind, layout in {"b": "b", "B": "B", "s": "h", "u": "H", "i": "I", "l": "q", "f": "f", "d": "d"}.items()
}
"""Values of one size, by the octet that says so (RabbitMQ's errata)."""


class _Unusual(Exception):
    """Not for here."""


def received(header: bytes, body: bytes) -> Wire:
    """Return a message as plain values; one whose properties nobody can read has a mark in their place."""
    try:
        return _received(header, body)
    except (_Unusual, IndexError, KeyError, UnicodeDecodeError, struct.error):
        found = ContentHeader()
        found.unmarshal(header)
        return messages.received(found.properties, body)


def _received(header: bytes, body: bytes) -> Wire:
    (flags,) = _FLAGS.unpack_from(header)
    if flags & ~_USUAL:
        raise _Unusual
    at = _FLAGS.size
    content_type = content_encoding = correlation_id = message_id = kind = app_id = timestamp = None
    headers: dict[str, Any] = {}
    if flags & _CONTENT_TYPE:
        content_type, at = _short(header, at)
    if flags & _CONTENT_ENCODING:
        content_encoding, at = _short(header, at)
    if flags & _HEADERS:
        end = at + 4 + _SIZE_VALUE(header, at)[0]
        headers, at = _table(header, at + 4, end, 0), end
    at += bool(flags & _DELIVERY_MODE) + bool(flags & _PRIORITY)
    if flags & _CORRELATION_ID:
        correlation_id, at = _short(header, at)
    if flags & _MESSAGE_ID:
        message_id, at = _short(header, at)
    if flags & _TIMESTAMP:
        (seconds,) = _TIME.unpack_from(header, at)
        if seconds > _LATEST:
            raise _Unusual
        timestamp, at = float(seconds), at + _TIME.size
    if flags & _TYPE:
        kind, at = _short(header, at)
    if flags & _APP_ID:
        app_id, at = _short(header, at)
    if at != len(header):
        raise _Unusual
    return Wire(
        body=body,
        headers=headers,
        message_id=message_id,
        correlation_id=correlation_id,
        type=kind,
        content_type=content_type,
        content_encoding=content_encoding,
        timestamp=timestamp,
        app_id=app_id,
    )


def _short(raw: bytes, at: int) -> tuple[str, int]:
    # A string that is cut ends beyond the header, and so does what follows.
    end = at + 1 + raw[at]
    return raw[at + 1 : end].decode(), end


def _table(raw: bytes, at: int, end: int, depth: int) -> dict[str, Any]:
    table: dict[str, Any] = {}
    while at < end:
        value_at = at + 1 + raw[at]
        name = raw[at + 1 : value_at].decode()
        # Numbers are most of what is read, and a call would cost more than reading one.
        if raw[value_at] == _INT:
            table[name], at = _INT_VALUE(raw, value_at + 1)[0], value_at + 5
        else:
            table[name], at = _value(raw, value_at, depth)
    if at != end:
        raise _Unusual
    return table


def _list(raw: bytes, at: int, end: int, depth: int) -> list[Any]:
    values = []
    while at < end:
        value, at = _value(raw, at, depth)
        values.append(value)
    if at != end:
        raise _Unusual
    return values


def _value(raw: bytes, at: int, depth: int) -> tuple[Any, int]:
    kind = raw[at]
    at += 1
    if kind == _TEXT:
        end = at + 4 + _SIZE_VALUE(raw, at)[0]
        return raw[at + 4 : end].decode(), end
    if kind == _INT:
        return _INT_VALUE(raw, at)[0], at + 4
    if kind == _BOOL:
        return raw[at] != 0, at + 1
    if kind == _VOID:
        return None, at
    if kind in (_TABLE, _LIST):
        if depth == _MAX_DEPTH:
            raise _Unusual
        begin = at + 4
        end = begin + _SIZE_VALUE(raw, at)[0]
        return (_table if kind == _TABLE else _list)(raw, begin, end, depth + 1), end
    fixed = _FIXED[kind]
    return fixed.unpack_from(raw, at)[0], at + fixed.size
