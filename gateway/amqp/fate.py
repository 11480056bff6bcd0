"""What can become of a publish.

Owns these words. Knows nothing of brokers or clients.
"""

from collections.abc import Callable
from enum import StrEnum


class Fate(StrEnum):
    """What became of a publish; all but the first also name the reason in `publish_failures_total`."""

    CONFIRMED = "confirmed"
    UNROUTABLE = "unroutable"
    NO_EXCHANGE = "no_exchange"
    """The exchange is missing, and the broker certainly does not have the message."""
    EXCHANGE_LOST = "exchange_lost"
    """The exchange went missing while others were sent after it: the broker may have taken it before that."""
    NACKED = "nacked"
    CLOSED = "closed"
    TIMED_OUT = "timed_out"
    BLOCKED = "blocked"
    DISCONNECTED = "disconnected"
    OVERLOADED = "overloaded"
    UNENCODABLE = "unencodable"
    """No frames can carry it: our own bug, since whatever is admitted can be published."""


Ended = Callable[[Fate], None]
"""Told once what became of a publish."""
