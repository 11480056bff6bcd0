"""What the store keeps of a message beside its body: properties and headers as AMQP bytes.

Owns their form. Knows nothing of what the headers mean.
"""

from typing import Any, Final

from pamqp import decode

from gateway.amqp import frames
from gateway.contract.wire import Wire

_PROPERTIES: Final = ("message_id", "correlation_id", "type", "content_type", "content_encoding", "app_id")


def freeze(wire: Wire) -> bytes:
    """Return properties and headers of a message as an AMQP field table; raises `frames.Unencodable`."""
    table: dict[str, Any] = {name: value for name in _PROPERTIES if (value := getattr(wire, name)) is not None}
    if wire.timestamp is not None:
        table["timestamp"] = int(wire.timestamp)
    table["headers"] = wire.headers
    return frames.table(table)


def thaw(properties: bytes, body: bytes) -> Wire:
    """Return the message that `freeze` was given."""
    table: dict[str, Any]
    _, table = decode.field_table(properties)
    return Wire(body=body, **table)
