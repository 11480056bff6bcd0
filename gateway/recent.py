"""The tickets that a door has just accepted, which the store need not know yet.

Owns that memory: this process' own, and what the other processes of the same door have left in memory that all of them
share. Never the truth: it is bounded, and gone with the door.
"""

import hashlib
import mmap
import os
import struct
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

import orjson

from gateway.contract.outcomes import TicketState
from gateway.station.store import TicketStatus

MAX_REMEMBERED: Final = 10_000
"""Tickets that a process remembers by itself."""
SHARED: Final = 4096
"""Of these, tickets that the other processes of a door can read."""
_RECORD: Final = 512
_HEAD: Final = struct.Struct("<IHII")
"""Digest of the record and its length, then where its ticket stands in the index: bucket and mark."""
_BUCKETS: Final = 1024
_WAYS: Final = 16
"""Entries of a bucket: with four records for each on average, one in a million finds its bucket full."""
_ENTRY: Final = struct.Struct("<II")
"""Mark of a ticket, and one more than the number of its record's room; 0 where the entry is free."""
_BUCKET: Final = _WAYS * _ENTRY.size
_INDEX: Final = _BUCKETS * _BUCKET


class SharedMemory:
    """Memory for the newest tickets of several processes; each writes only where its place is.

    A place has an index and rooms for records. A ticket is looked up in one bucket of each place, however many tickets
    there are: anybody may ask for ids that do not exist, all day long.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._size = _INDEX + SHARED * _RECORD
        self._memory = mmap.mmap(-1, places * self._size)
        self._secret = os.urandom(16)
        """Or clients, who choose their tickets' ids, could choose such as share a bucket."""

    def write(self, place: int, number: int, ticket: str, record: bytes) -> None:
        """Leave the `number`-th record of a place, in the stead of the oldest; one that is too long is not left."""
        if len(record) > _RECORD - _HEAD.size:
            return
        bucket, mark = self._where(ticket)
        room = number % SHARED
        at = self._room(place, room)
        _, size, old_bucket, old_mark = _HEAD.unpack_from(self._memory, at)
        if size:
            self._replace(place, old_bucket, (old_mark, room + 1), (0, 0))
        written = _HEAD.pack(zlib.crc32(record), len(record), bucket, mark) + record
        self._memory[at : at + len(written)] = written
        if not self._replace(place, bucket, (0, 0), (mark, room + 1)):
            _ENTRY.pack_into(self._memory, self._bucket(place, bucket) + number % _WAYS * _ENTRY.size, mark, room + 1)

    def find(self, ticket: str, beginning: bytes) -> bytes | None:
        """Return the whole record of a ticket, which begins so."""
        bucket, mark = self._where(ticket)
        for place in range(self._places):
            for found, room in self._entries(place, bucket):
                if found == mark and 0 < room <= SHARED:  # half of an entry may have been written
                    record = self._record(self._room(place, room - 1))
                    if record is not None and record.startswith(beginning):
                        return record
        return None

    def _where(self, ticket: str) -> tuple[int, int]:
        digest = hashlib.blake2b(ticket.encode("utf-8", "surrogatepass"), key=self._secret, digest_size=8).digest()
        bucket, mark = struct.unpack("<II", digest)
        return bucket % _BUCKETS, mark

    def _room(self, place: int, room: int) -> int:
        return place * self._size + _INDEX + room * _RECORD

    def _bucket(self, place: int, bucket: int) -> int:
        return place * self._size + bucket * _BUCKET

    def _entries(self, place: int, bucket: int) -> Iterator[tuple[int, int]]:
        at = self._bucket(place, bucket)
        return _ENTRY.iter_unpack(self._memory[at : at + _BUCKET])

    def _replace(self, place: int, bucket: int, old: tuple[int, int], new: tuple[int, int]) -> bool:
        """Put one entry of a bucket in the stead of another; tell whether that was there."""
        for way, entry in enumerate(self._entries(place, bucket)):
            if entry == old:
                _ENTRY.pack_into(self._memory, self._bucket(place, bucket) + way * _ENTRY.size, *new)
                return True
        return False

    def _record(self, at: int) -> bytes | None:
        digest, size, _, _ = _HEAD.unpack_from(self._memory, at)
        record = self._memory[at + _HEAD.size : at + _HEAD.size + size]
        return record if zlib.crc32(record) == digest else None  # somebody is writing it at this moment


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
            self._shared.write(self._place, self._written, status.ticket, record)
            self._written += 1

    def recall(self, ticket: str) -> tuple[TicketStatus, str] | None:
        """Return a ticket as it was accepted, and the digest of its contents; None where nobody here knows."""
        known = self._own.get(ticket)
        if known is not None or self._shared is None:
            return known
        record = self._shared.find(ticket, b"[" + orjson.dumps(ticket) + b",")
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
