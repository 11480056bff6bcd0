"""What a worker prints: lines to pass on, at a bounded rate, and the last fifty of them as evidence. Pure."""

from typing import Final

TAIL_LINES: Final = 50
TAIL_BYTES: Final = 12 * 1024
_LINE_BYTES: Final = 2048
_LINES_PER_SECOND: Final = 200


class Output:
    """One worker's output. A handler that prints without end fills neither the node's log nor its memory."""

    def __init__(self) -> None:
        self._tail = bytearray()
        self._line = bytearray()
        self._second = 0
        self._passed = 0
        self._dropped = 0

    @property
    def tail(self) -> str:
        """The last lines that were printed since `forget`: at most 50 of them, and at most 12 KiB."""
        lines = self._tail.decode("utf-8", "replace").split("\n")
        return "\n".join(lines[-TAIL_LINES - (not lines[-1]) :])

    def forget(self) -> None:
        """Start a new run: what was printed before is none of its evidence."""
        self._tail.clear()

    def feed(self, data: bytes, now: float) -> tuple[list[str], int]:
        """Take what was printed at `now` (seconds on any clock); return lines to pass on, and how many were dropped.

        A line of over 2 KiB is passed on in pieces. Drops are told once their second is over.
        """
        self._tail += data[-TAIL_BYTES:]
        del self._tail[:-TAIL_BYTES]
        told = 0
        if int(now) != self._second:
            told, self._second, self._passed, self._dropped = self._dropped, int(now), 0, 0
        self._line += data
        lines: list[str] = []
        for piece in self._pieces():
            if self._passed < _LINES_PER_SECOND:
                self._passed += 1
                lines.append(piece.decode("utf-8", "replace"))
            else:
                self._dropped += 1
        return lines, told

    def rest(self) -> str:
        """Return the unfinished line, at the end."""
        line, self._line = self._line, bytearray()
        return line.decode("utf-8", "replace")

    def _pieces(self) -> list[bytes]:
        *whole, last = bytes(self._line).split(b"\n")
        pieces = [line[at : at + _LINE_BYTES] for line in whole for at in range(0, len(line), _LINE_BYTES)]
        while len(last) >= _LINE_BYTES:
            pieces.append(last[:_LINE_BYTES])
            last = last[_LINE_BYTES:]
        self._line = bytearray(last)
        return pieces
