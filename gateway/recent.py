"""The tickets that a door has just accepted, which the store need not know yet.

Owns that memory: this process' own, and what the other processes of the same door have left in memory that all of them
share. Never the truth: it is bounded, and gone with the door.
"""

import mmap
import struct
import zlib
from collections import OrderedDict
from typing import Final

import orjson

from gateway.contract.outcomes import TicketState
from gateway.station.store import TicketStatus

MAX_REMEMBERED: Final = 10_000
"""Tickets that a process remembers by itself."""
SHARED: Final = 4096
"""Of these, tickets that the other processes of a door can read."""
_RECORD: Final = 512
_HEAD: Final = struct.Struct("<IH")


class SharedMemory:
    """Memory for the newest tickets of several processes; each writes only where its place is."""

    def __init__(self, places: int) -> None:
        self._size = SHARED * _RECORD
        self._memory = mmap.mmap(-1, places * self._size)

    def write(self, place: int, number: int, record: bytes) -> None:
        """Leave the `number`-th record of a place, in the stead of the oldest; one that is too long is not left."""
        if len(record) <= _RECORD - _HEAD.size:
            at = place * self._size + number % SHARED * _RECORD
            written = _HEAD.pack(zlib.crc32(record), len(record)) + record
            self._memory[at : at + len(written)] = written

    def find(self, beginning: bytes) -> bytes | None:
        """Return a whole record that begins so."""
        at = -1
        while (at := self._memory.find(beginning, at + 1)) >= 0:
            start = at - _HEAD.size
            if start % _RECORD == 0:
                digest, size = _HEAD.unpack_from(self._memory, start)
                record = self._memory[at : at + size]
                if zlib.crc32(record) == digest:  # or somebody is writing it at this moment
                    return record
        return None


class Recent:
    """What one process knows of the tickets that its door has accepted."""

    def __init__(self, shared: SharedMemory | None = None, place: int = 0) -> None:
        self._own: OrderedDict[str, tuple[TicketStatus, str]] = OrderedDict()
        self._shared = shared
        self._place = place
        self._written = 0

    def remember(self, status: TicketStatus, digest: str) -> None:
        """Take note of an accepted ticket; `digest` is of its contents."""
        self._own[status.ticket] = (status, digest)
        if len(self._own) > MAX_REMEMBERED:
            self._own.popitem(last=False)
        if self._shared is not None:
            record = orjson.dumps([status.ticket, status.kind, status.updated_at, status.client, digest])
            self._shared.write(self._place, self._written, record)
            self._written += 1

    def recall(self, ticket: str) -> tuple[TicketStatus, str] | None:
        """Return a ticket as it was accepted, and the digest of its contents; None where nobody here knows."""
        known = self._own.get(ticket)
        if known is not None or self._shared is None:
            return known
        record = self._shared.find(b"[" + orjson.dumps(ticket) + b",")
        if record is None:
            return None
        _, kind, at, client, digest = orjson.loads(record)
        return accepted(ticket, kind, client, at=at), digest


def accepted(ticket: str, kind: str, client: str | None, *, at: float) -> TicketStatus:
    """Return the state of a ticket that nobody has begun with."""
    return TicketStatus(
        ticket=ticket,
        kind=kind,
        state=TicketState.ACCEPTED,
        attempts=0,
        generation=0,
        updated_at=at,
        client=client,
        detail=None,
    )
