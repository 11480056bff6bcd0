"""Messages between the client library's form and plain values.

Owns what the client cannot read or write by itself. Knows nothing of what the headers mean.
"""

from datetime import UTC, datetime
from typing import Any

from pamqp import decode
from pamqp.commands import Basic

from gateway.contract.wire import Wire


def read_any_text() -> None:
    """Make the client read properties and header names that are no UTF-8, with their odd bytes as escapes.

    By itself it gives the whole connection up: one message by a producer that writes Latin-1 would come back to every
    new session and take the node's other deliveries along each time (P12). Harmless to call again.
    """
    decode.METHODS["shortstr"] = _short_text
    vars(decode)["short_str"] = _short_text  # header tables look it up here


def received(properties: Basic.Properties, body: bytes) -> Wire:
    """Return a delivered message as plain values."""
    return Wire(
        body=body,
        headers=properties.headers or {},
        message_id=properties.message_id,
        correlation_id=properties.correlation_id,
        type=properties.message_type,
        content_type=properties.content_type,
        content_encoding=properties.content_encoding,
        timestamp=properties.timestamp.timestamp() if properties.timestamp else None,
        app_id=properties.app_id,
    )


def properties(wire: Wire) -> Basic.Properties:
    """Return the properties of a persistent message."""
    return Basic.Properties(
        delivery_mode=2,
        headers=_encodable(dict(wire.headers)),
        message_id=wire.message_id,
        correlation_id=wire.correlation_id,
        message_type=wire.type,
        content_type=wire.content_type,
        content_encoding=wire.content_encoding,
        timestamp=datetime.fromtimestamp(wire.timestamp, UTC) if wire.timestamp else None,
        app_id=wire.app_id,
    )


def _encodable(value: Any) -> Any:
    """Return `value` with bytes as bytearrays: the client reads both from a header table but writes only one."""
    match value:
        case bytes():
            return bytearray(value)
        case dict():
            return {name: _encodable(item) for name, item in value.items()}
        case list():
            return [_encodable(item) for item in value]
        case _:
            return value


def _short_text(value: bytes) -> tuple[int, str]:
    if not value or len(value) <= value[0]:
        raise ValueError("a short string that is longer than its frame")
    end = 1 + value[0]
    return end, value[1:end].decode("utf-8", "backslashreplace")
