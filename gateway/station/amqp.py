"""Messages between the client library's form, plain values, and the bytes that the store keeps.

Owns what the client cannot read or write by itself. Knows nothing of what the headers mean.
"""

from datetime import UTC, datetime
from typing import Any, Final

import aio_pika
from aio_pika.abc import AbstractIncomingMessage
from pamqp import commands, decode, encode, header

from gateway.contract import unreadable
from gateway.contract.wire import Wire, encodable

_PROPERTIES: Final = ("message_id", "correlation_id", "type", "content_type", "content_encoding", "app_id")


def read_any_properties() -> None:
    """Make the client read every message, whatever the bytes of its properties.

    By itself it gives the whole connection up over what it cannot decode: one such message would come back to every
    new connection and stop the intake for ever (P12, D45). Harmless to call again.
    """
    decode.METHODS["shortstr"] = unreadable.short_text
    setattr(header.ContentHeader, "unmarshal", _unmarshal)  # noqa: B010  assigning to a method is no type error this way


def received(message: AbstractIncomingMessage) -> Wire:
    """Return a delivered message as plain values."""
    return Wire(
        body=message.body,
        headers=message.headers,
        message_id=message.message_id,
        correlation_id=message.correlation_id,
        type=message.type,
        content_type=message.content_type,
        content_encoding=message.content_encoding,
        timestamp=None if message.timestamp is None else message.timestamp.timestamp(),
        app_id=message.app_id,
    )


def outgoing(wire: Wire) -> aio_pika.Message:
    """Return a persistent message of the client library."""
    return aio_pika.Message(
        wire.body,
        headers=encodable(wire.headers),
        content_type=wire.content_type,
        content_encoding=wire.content_encoding,
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        correlation_id=wire.correlation_id,
        message_id=wire.message_id,
        timestamp=None if wire.timestamp is None else datetime.fromtimestamp(wire.timestamp, UTC),
        type=wire.type,
        app_id=wire.app_id,
    )


def freeze(wire: Wire) -> bytes:
    """Return properties and headers of a message as an AMQP field table; raises TypeError or ValueError."""
    table: dict[str, Any] = {name: getattr(wire, name) for name in _PROPERTIES if getattr(wire, name) is not None}
    if wire.timestamp is not None:
        table["timestamp"] = int(wire.timestamp)
    return encode.field_table({**table, "headers": encodable(wire.headers)})


def thaw(properties: bytes, body: bytes) -> Wire:
    """Return the message that `freeze` was given."""
    table: dict[str, Any]
    _, table = decode.field_table(properties)
    return Wire(body=body, **table)


_plain_unmarshal: Final = header.ContentHeader.unmarshal


def _unmarshal(self: header.ContentHeader, data: bytes) -> None:
    try:
        _plain_unmarshal(self, data)
        readable = not unreadable.is_too_deep(self.properties.headers or {})
    except Exception:  # noqa: BLE001  whatever a codec makes of hostile bytes, the message must get through
        readable = False
    if not readable:
        self.properties = commands.Basic.Properties(headers=unreadable.headers(data))
