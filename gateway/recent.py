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
"""Digest of the record, and its length."""
_BUCKETS: Final = 1024
_WAYS: Final = 16
"""Entries of a bucket, the newest in the stead of the oldest: of the tickets that have a record, four stand in a bucket
on average, and one in a million finds sixteen newer ones there."""
_ENTRY: Final = struct.Struct("<II")
"""Mark of a ticket, and one more than the number of its record's room; 0 where there is none."""
_BUCKET: Final = _WAYS * _ENTRY.size
_INDEX: Final = _BUCKETS * (_BUCKET + 1)
"""All buckets, and for each of them which way is next."""


class SharedMemory:
    """Memory for the newest tickets of several processes; each writes only where its place is.

    A place has an index and rooms for records. A ticket is looked up in one bucket of each place, however many tickets
    there are: anybody may ask for ids that do not exist, all day long.
    """

    def __init__(self, places: int) -> None:
        self._size = _INDEX + SHARED * _RECORD
        self._beginnings = range(0, places * self._size, self._size)
        self._memory = mmap.mmap(-1, places * self._size)

    def write(self, place: int, number: int, ticket: str, record: bytes) -> None:
        """Leave the `number`-th record of a place, in the stead of the oldest; one that is too long is not left."""
        if len(record) > _RECORD - _HEAD.size:
            return
        memory, beginning, room = self._memory, self._beginnings[place], number % SHARED
        at = beginning + _INDEX + room * _RECORD
        written = _HEAD.pack(zlib.crc32(record), len(record)) + record
        memory[at : at + len(written)] = written
        bucket, mark = _where(ticket)
        next_way = beginning + _BUCKETS * _BUCKET + bucket
        way = memory[next_way] % _WAYS
        _ENTRY.pack_into(memory, beginning + bucket * _BUCKET + way * _ENTRY.size, mark, room + 1)
        memory[next_way] = (way + 1) % _WAYS

    def find(self, ticket: str, beginning: bytes) -> bytes | None:
        """Return the whole record of a ticket, which begins so."""
        bucket, mark = _where(ticket)
        for place in self._beginnings:
            at = place + bucket * _BUCKET
            for found, room in _ENTRY.iter_unpack(self._memory[at : at + _BUCKET]):
                if found == mark and 0 < room <= SHARED:  # half of an entry may have been written
                    record = self._record(place + _INDEX + (room - 1) * _RECORD)
                    if record is not None and record.startswith(beginning):
                        return record
        return None

    def _record(self, at: int) -> bytes | None:
        digest, size = _HEAD.unpack_from(self._memory, at)
        record = self._memory[at + _HEAD.size : at + _HEAD.size + size]
        return record if zlib.crc32(record) == digest else None  # somebody is writing it at this moment


def _where(ticket: str) -> tuple[int, int]:
    """Return bucket and mark of a ticket.

    The interpreter's own hash has a secret, which processes that were forked share: clients, who choose their tickets'
    ids, cannot choose such as would crowd a bucket.
    """
    hashed = hash(ticket)
    return hashed % _BUCKETS, hashed >> 32 & 0xFFFF_FFFF


class Recent:
    """What one process knows of the tickets that its door has accepted."""

    def __init__(self, shared: SharedMemory | None = None, place: int = 0) -> None:
        self._own: OrderedDict[str, tuple[str, str | None, float, str]] = OrderedDict()
        self._shared = shared
        self._place = place
        self._written = 0

    def remember(self, ticket: str, kind: str, client: str | None, digest: str, *, at: float) -> None:
        """Take note of a ticket that was accepted at that moment (Unix seconds); `digest` is of its contents."""
        self._own[ticket] = (kind, client, at, digest)
        if len(self._own) > MAX_REMEMBERED:
            self._own.popitem(last=False)
        if self._shared is not None:
            record = orjson.dumps([ticket, kind, at, client, digest])
            self._shared.write(self._place, self._written, ticket, record)
            self._written += 1

    def recall(self, ticket: str) -> tuple[TicketStatus, str] | None:
        """Return a ticket as it was accepted, and the digest of its contents; None where nobody here knows."""
        known = self._own.get(ticket)
        if known is not None:
            kind, client, at, digest = known
        else:
            beginning = b"[" + orjson.dumps(ticket) + b","
            record = None if self._shared is None else self._shared.find(ticket, beginning)
            if record is None:
                return None
            _, kind, at, client, digest = orjson.loads(record)
        return _accepted(ticket, kind, client, at=at), digest


def _accepted(ticket: str, kind: str, client: str | None, *, at: float) -> TicketStatus:
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
