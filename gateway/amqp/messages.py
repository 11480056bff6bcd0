"""Received messages, from the client library's form to plain values.

Owns what the client cannot read by itself. Knows nothing of what the headers mean.
"""

from typing import Final

from pamqp import commands, decode, header
from pamqp.commands import Basic

from gateway.contract import unreadable
from gateway.contract.wire import Wire


def read_any_properties() -> None:
    """Make the client read every message, whatever the bytes of its properties.

    By itself it gives the whole connection up over what it cannot decode: one such message would come back to every
    new connection and stop the intake for ever (P12, D45). Harmless to call again.
    """
    decode.METHODS["shortstr"] = unreadable.short_text
    setattr(header.ContentHeader, "unmarshal", _unmarshal)  # noqa: B010  assigning to a method is no type error this way


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


_plain_unmarshal: Final = header.ContentHeader.unmarshal


def _unmarshal(self: header.ContentHeader, data: bytes) -> None:
    try:
        _plain_unmarshal(self, data)
        readable = not unreadable.is_too_deep(self.properties.headers or {})
    except Exception:  # noqa: BLE001  whatever a codec makes of hostile bytes, the message must get through
        readable = False
    if not readable:
        self.properties = commands.Basic.Properties(headers=unreadable.headers(data))
