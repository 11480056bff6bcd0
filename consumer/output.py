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
        while self._passed < _LINES_PER_SECOND and (piece := self._piece()):
            self._passed += 1
            lines.append(piece.decode("utf-8", "replace"))
        if self._passed == _LINES_PER_SECOND:
            self._drop()
        return lines, told

    def rest(self) -> str:
        """Return the unfinished line, at the end."""
        line, self._line = self._line, bytearray()
        return line.decode("utf-8", "replace")

    def _piece(self) -> bytes:
        """Take the next line that is not empty, or the first piece of a long one; nothing if it goes on."""
        if self._line.startswith(b"\n"):
            self._line = self._line.lstrip(b"\n")
        end = self._line.find(b"\n", 0, _LINE_BYTES + 1)
        if end < 0 and len(self._line) < _LINE_BYTES:
            return b""
        piece = bytes(self._line[:end] if end >= 0 else self._line[:_LINE_BYTES])
        del self._line[: len(piece) + (end >= 0)]
        return piece

    def _drop(self) -> None:
        """Count what is whole, without a look at each line: there may be tens of thousands."""
        whole, newline, last = bytes(self._line).lstrip(b"\n").rpartition(b"\n")
        pieces, kept = divmod(len(last), _LINE_BYTES)
        self._dropped += (whole + newline).count(b"\n") + pieces
        self._line = bytearray(last[len(last) - kept :])
