"""Identifiers: how a ticket gets its name, and how each publish gets its own.

Never derives a ticket id from anything but what the sender supplied or the body itself, so that the
same submission has the same id wherever it is computed.
"""

import hashlib
import os
import re
import time
import uuid
from collections import deque
from typing import Final, NewType

TicketId = NewType("TicketId", str)

TICKET_ID_PATTERN: Final = re.compile(r"[A-Za-z0-9._:~-]{1,128}")
KIND_PATTERN: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
UNKNOWN_KIND: Final = "unknown"

_VARIANT: Final = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
"""The first digit of the fourth part: two bits that say which UUIDs these are, and two random ones."""
_FETCHED: Final = 256
_IDEMPOTENCY_NAMESPACE: Final = uuid.UUID("6b0d3c1e-7d0f-5c3a-9a53-1a2a7e770417")


_chances: Final = deque[str]()
"""What is random of ids, made for many at a time: the system call would be a third of an id. Taking one is atomic."""
os.register_at_fork(after_in_child=_chances.clear)  # or parent and child would make the same ids
_clock: tuple[int, str] = (0, "")
"""The newest millisecond, and how it is written: a busy door makes a dozen ids in each."""


def uuid7() -> str:
    """Return a fresh UUIDv7: 48 bits of Unix milliseconds, then 74 random bits (RFC 9562, 5.7)."""
    # Written by hand, at a tenth of what uuid.UUID costs: one request makes four.
    global _clock  # noqa: PLW0603 - a memory of the clock, replaced whole
    try:
        chance = _chances.pop()
    except IndexError:
        chance = _fetch()
    now = time.time_ns() // 1_000_000
    millisecond, written = _clock
    if now != millisecond:
        digits = f"{now:012x}"
        written = f"{digits[:8]}-{digits[8:]}-7"
        _clock = now, written
    return written + chance


def _fetch() -> str:
    """Return what is random of one id, and keep that of many more."""
    digits = os.urandom(_FETCHED * 10).hex()
    first, *others = (_parts(digits[at : at + 20]) for at in range(0, len(digits), 20))
    _chances.extend(others)
    return first


def _parts(chance: str) -> str:
    return f"{chance[1:4]}-{_VARIANT[chance[4]]}{chance[5:8]}-{chance[8:]}"


def is_ticket_id(text: str) -> bool:
    """Tell whether a client may choose `text` as a ticket id."""
    return TICKET_ID_PATTERN.fullmatch(text) is not None


def is_kind(text: str) -> bool:
    """Tell whether `text` can name a kind of ticket."""
    return KIND_PATTERN.fullmatch(text) is not None


def idempotent_ticket_id(client: str, key: str) -> TicketId:
    """Derive the ticket id that a client's `Idempotency-Key` stands for, the same in every door."""
    return TicketId(str(uuid.uuid5(_IDEMPOTENCY_NAMESPACE, f"{len(client)}:{client}:{key}")))


def adopted_ticket_id(*, correlation_id: str | None, message_id: str | None, body: bytes) -> TicketId:
    """Name an item whose producer knows nothing of us (P14).

    The producer's own id is followed by eight digits of the body's digest, so that a producer that
    reuses one id for everything does not merge its items; an unfit id leaves the digest alone.
    """
    given = correlation_id or message_id or ""
    return distinguished(given, body) if given else TicketId(hashlib.sha256(body).hexdigest())


def distinguished(given: str, body: bytes) -> TicketId:
    """Return `given` followed by `~` and eight digits of the body's digest; where that is unfit, the digest alone."""
    digest = hashlib.sha256(body).hexdigest()
    named = f"{given}~{digest[:8]}"
    return TicketId(named if is_ticket_id(named) else digest)
