"""Cuts what a broker sends into frames, and takes out those of some channels.

Owns where a frame ends (specification 0-9-1, 4.2.3). Pure. What it is not asked for, and whatever is no frame, it
passes on as it came and in its order: the client library is the one to complain.
"""

import struct
from collections.abc import Callable
from typing import Final

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
HEAD: Final = struct.Struct(">BHI")
"""Type, channel and size of the payload; the payload and `END` follow."""
END: Final = 0xCE

Take = Callable[[int, bytes], None]
"""Takes a frame's type and its payload."""


class Cutter:
    """One connection's stream of bytes, cut as it comes."""

    def __init__(self, pass_on: Callable[[bytes], None]) -> None:
        self._pass_on = pass_on
        self.takers: dict[int, Take] = {}
        """By channel: who gets its frames. May be changed at any time, also by a taker."""
        self._passing = 0
        """Bytes of a frame that are still to be passed on."""
        self._begun: list[bytes] = []
        """A frame to be taken, as far as it has come."""
        self._lacking = 0
        """Bytes without which another look at it is of no use."""

    @property
    def is_between(self) -> bool:
        """Whether what was passed on ends with the end of a frame."""
        return not self._passing

    def feed(self, data: bytes) -> int:
        """Cut what has come; returns how many frames were taken."""
        if self._begun:
            self._begun.append(data)
            if len(data) < self._lacking:
                self._lacking -= len(data)
                return 0
            data = b"".join(self._begun)
            self._begun.clear()
        start, at, end = 0, min(self._passing, len(data)), len(data)
        self._passing -= at
        taken = 0
        while end - at >= HEAD.size:
            kind, channel, size = HEAD.unpack_from(data, at)
            last = at + HEAD.size + size
            take = self.takers.get(channel)
            if take is None:
                self._passing = max(0, last + 1 - end)
                at = min(last + 1, end)
                continue
            if last >= end:
                self._lacking = last + 1 - end
                break
            if data[last] != END:
                self.takers.clear()
                continue
            if start < at:
                self._pass_on(data[start:at])
            start, at = at + HEAD.size, last + 1
            take(kind, data[start:last])
            start = at
            taken += 1
        else:
            self._lacking = HEAD.size - (end - at)
        if start < at:
            self._pass_on(data[start:at])
        if at < end:
            self._begun.append(data[at:])
        return taken
