"""What each life of a node has begun, written where its death leaves it: on a slate of its own beside the store.

A licence is on record before its run can start, so it cannot tell whether that ever did. The slate can: a start is
chalked up before anybody who runs it hears of it. That is not made durable, and need not be. What kills a process
leaves what it has written; what does not, the end of the machine, is known by the number of its boot.

Owns these files. Says that a start never began only where that is certain: the life is over, as the lock on its slate
tells, it ended in this boot, and nothing was ever left out of its slate.
"""

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final

from gateway.contract.logs import event
from gateway.contract.outcomes import Stamp

log: Final = logging.getLogger("consumer.fence")

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_HEAD_BYTES: Final = 36
"""The number of the boot."""
_NAME_BYTES: Final = 16
"""Of a start, in a place of its own that is used again when the start is decided."""


class Slate:
    """The slate of this life; `licensed`, `begin` and `decided` name the same starts."""

    def __init__(self, path: Path, boot: bytes) -> None:
        """Lay it out, and hold its lock from now on; raises OSError."""
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.pwrite(self._file, boot, 0)
        self._places: dict[tuple[str, Stamp], int] = {}
        self._free: list[int] = []
        self._used = 0
        self.is_whole = True
        """False once something could not be written: then the file is gone, and vouches for nothing."""

    def begin(self, ticket: str, stamp: Stamp) -> None:
        """Chalk up a start that begins now."""
        if not self._free:
            self._free.append(self._used)
            self._used += 1
        place = self._places[ticket, stamp] = self._free.pop()
        try:
            written = os.pwrite(self._file, _name(ticket, stamp), _HEAD_BYTES + place * _NAME_BYTES)
        except OSError as error:
            self._give_up(str(error))
        else:
            if written < _NAME_BYTES:
                self._give_up("no room")

    def decided(self, ticket: str, stamp: Stamp) -> None:
        """Use a start's place again: from now on its decision is on record, and nobody looks here."""
        place = self._places.pop((ticket, stamp), None)
        if place is not None:
            self._free.append(place)

    def close(self) -> None:
        """Let go of it; it stays where a start has begun that is not decided."""
        if not self._places:
            with contextlib.suppress(OSError):
                self._path.unlink()
        os.close(self._file)

    def _give_up(self, why: str) -> None:
        if self.is_whole:
            self.is_whole = False
            event(log, "slate.given_up", logging.WARNING, why=why)
            with contextlib.suppress(OSError):  # where nothing can be written at all, nothing will be licensed either
                self._path.unlink()


class Slates:
    """The slates of all lives that share one store, in one folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, life: str) -> Slate | None:
        """Return a new slate for this life; None where there can be none."""
        try:
            boot = _boot()
            self._folder.mkdir(exist_ok=True)
            return Slate(self._path(life), boot)
        except OSError as error:
            event(log, "slate.missing", logging.WARNING, error=error)
            return None

    def never_began(self, life: str, ticket: str, stamp: Stamp) -> bool:
        """Tell whether a start that was licensed to this life can be known not to have begun, now or ever."""
        try:
            with self._path(life).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # held: that life goes on, and may still begin it
                content = file.read()
            return content[:_HEAD_BYTES] == _boot() and _name(ticket, stamp) not in _names(content)
        except OSError:
            return False

    def sweep(self, *, silent_since: float) -> None:
        """Remove the slates of lives that ended before (Unix seconds)."""
        with contextlib.suppress(OSError):
            for path in self._folder.iterdir():
                if path.stat().st_mtime < silent_since and not _is_held(path):
                    path.unlink()

    def _path(self, life: str) -> Path:
        return self._folder / blake2b(life.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _boot() -> bytes:
    """Return the number of this boot; raises OSError where the system does not tell."""
    number = _BOOT.read_bytes().strip()
    if len(number) != _HEAD_BYTES:
        raise OSError(f"{_BOOT} has {len(number)} bytes")
    return number


def _is_held(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _names(content: bytes) -> Iterator[bytes]:
    for begin in range(_HEAD_BYTES, len(content), _NAME_BYTES):
        yield content[begin : begin + _NAME_BYTES]


def _name(ticket: str, stamp: Stamp) -> bytes:
    return blake2b(f"{stamp} {ticket}".encode(), digest_size=_NAME_BYTES).digest()
