"""Keeps a broker from moving a consumer, unheard, to a queue that was made again under the name of a deleted one.

RabbitMQ before 4.0 revives the consumers of a quorum queue that is there again by the time their channel hears of the
end of the old one, and then forgets what it must know of the new one: the queue counts the consumer and hands
messages to it, and none of them ever leaves the broker (`handle_consuming_queue_down_or_eol` in its `rabbit_channel`).
It says so instead, by a cancel, where it cannot revive them, and a quorum queue takes no consumer of a channel that has
a limit for all its consumers together. So the limit is there while they consume, and away while one of them begins.
"""

from typing import Final

from aio_pika.abc import AbstractConnection
from pamqp.commands import Basic

MOST: Final = 65_535
"""A limit that never limits."""
PREVENT: Final = Basic.Qos(prefetch_count=MOST, global_=True)
ALLOW: Final = Basic.Qos(prefetch_count=0, global_=True)
_FIRST_WITHOUT: Final = 4
"""The first major version that always cancels. From there on channel-wide limits are on their way out, too."""


def is_known_of(connection: AbstractConnection) -> bool:
    """Tell whether the broker at the other end is one that revives consumers."""
    transport = connection.transport
    version = transport.connection.server_properties.get("version", "") if transport is not None else ""
    major = (version.decode() if isinstance(version, bytes) else str(version)).partition(".")[0]
    return major.isdecimal() and int(major) < _FIRST_WITHOUT
