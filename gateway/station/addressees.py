"""Who has a callback: read from the doors' key file, and again when that changes.

Owns when. A file that cannot be read leaves everything as it was, and is told of once for each of its states: what the
station keeps matters more than whom it tells.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from gateway.callback import Callback
from gateway.clients import read_file
from gateway.contract.logs import event
from gateway.key_lines import BadKeyFile
from gateway.station.pauses import pause

_LOOK_EVERY: Final = 1.0

logger: Final = logging.getLogger("lazaretto.callbacks")


class Addressees:
    """Watches one key file. `run` until `stop` is set."""

    def __init__(self, path: Path | None, know: Callable[[Mapping[str, Sequence[Callback]]], None]) -> None:
        """`know` is told of all clients with a callback, at each change."""
        self._path = path
        self._know = know
        self._seen: object = object()

    async def run(self, stop: asyncio.Event) -> None:
        """Look at the file, again and again."""
        while not stop.is_set():
            self.look()
            await pause(stop, _LOOK_EVERY)

    def look(self) -> None:
        """Read the file if it has changed."""
        # Taken before it is read, so that no change goes unseen.
        state = None if self._path is None else _state(self._path)
        if state != self._seen:
            self._seen = state
            self._read()

    def _read(self) -> None:
        try:
            known = {} if self._path is None else read_file(self._path).callbacks
        except BadKeyFile as error:
            event(logger, "callbacks.keys_refused", logging.ERROR, error=error)
            return
        self._know(known)
        event(logger, "callbacks.known", clients=len(known))


def _state(path: Path) -> tuple[int, int, int] | str:
    try:
        status = path.stat()
    except OSError as error:
        return str(error)
    return status.st_mtime_ns, status.st_size, status.st_ino
