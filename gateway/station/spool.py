"""Raw files of messages that cannot be stored as they are (P19).

Owns one folder. A file is on the disk, under its final name, before anybody acknowledges the message; none is removed
before a person has decided about its item.
"""

import hashlib
import os
from pathlib import Path
from typing import Final

from gateway.contract.wire import Wire
from gateway.station.storable import document

_PROPERTIES: Final = ("message_id", "correlation_id", "type", "content_type", "content_encoding", "timestamp")


class Spool:
    """The folder; `keep` raises OSError while it cannot be written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, wire: Wire, *, source: str, error: str) -> Path:
        """Write body and properties of a message, and return the body's path; the same message gets the same name."""
        name = hashlib.sha256(f"{source}\0{wire.message_id}\0".encode("utf-8", "surrogatepass") + wire.body).hexdigest()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.folder / f"{name[:32]}.body"
        _write(path, wire.body)
        _write(path.with_suffix(".json"), _about(wire, source, error).encode())
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return path


def forget(path: Path) -> None:
    """Remove a raw file and what is written beside it; raises OSError when one of them cannot be removed."""
    path.unlink(missing_ok=True)
    path.with_suffix(".json").unlink(missing_ok=True)


def _about(wire: Wire, source: str, error: str) -> str:
    known = {"source": source, "error": error}
    named = {name: getattr(wire, name) for name in _PROPERTIES}
    for headers in (dict(wire.headers), "could not be written down"):
        try:
            return document({**known, "headers": headers, **named})
        except (TypeError, ValueError, RecursionError):
            continue
    return document(known)


def _write(path: Path, content: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
