"""A message as a test's own consumer gets it, as plain values."""

from aio_pika.abc import AbstractIncomingMessage

from gateway.contract.wire import Wire


def received(message: AbstractIncomingMessage) -> Wire:
    """Return a delivered message of the client library as plain values."""
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
