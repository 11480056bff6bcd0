"""What a process knows of the door that it is one of several processes of, and what the others know of it.

Owns a little memory that all of them share by fork: who there is, and who would take a ticket now. Each process writes
its own place; the supervisor clears those of the dead, who cannot.
"""

import asyncio
import mmap
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.recent import SharedMemory
from gateway.shared_figures import SharedFigures

_PLACE: Final = struct.Struct("<I?3x")
_EVERY: Final = 0.1


class Standing:
    """A place for each process: its id, and whether it is ready."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._memory = mmap.mmap(-1, places * _PLACE.size)

    def __len__(self) -> int:
        """Return how many processes there should be."""
        return self._places

    def put(self, place: int, pid: int, *, ready: bool) -> None:
        """Say how one process stands; `pid` 0 says that there is none."""
        _PLACE.pack_into(self._memory, place * _PLACE.size, pid, ready)

    def pids(self) -> list[int]:
        """Return the processes that there are."""
        return [pid for pid, _ in self._all() if pid]

    def ready(self) -> int:
        """Return how many processes are ready."""
        return sum(ready for _, ready in self._all())

    def _all(self) -> list[tuple[int, bool]]:
        return [_PLACE.unpack_from(self._memory, place * _PLACE.size) for place in range(self._places)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """One process' part in its door."""

    place: int
    standing: Standing
    figures: SharedFigures
    recent: SharedMemory


class Presence:
    """Says again and again whether this process is ready; `run()` until cancelled."""

    def __init__(self, member: Membership | None, is_ready: Callable[[], bool]) -> None:
        """Without a `member` there is nobody to say it to."""
        self._member = member
        self._is_ready = is_ready

    async def run(self) -> None:
        """Say it until cancelled."""
        member = self._member
        if member is None:
            await asyncio.Event().wait()
            return
        while True:
            member.standing.put(member.place, os.getpid(), ready=self._is_ready())
            await asyncio.sleep(_EVERY)
