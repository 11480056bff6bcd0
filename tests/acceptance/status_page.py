"""What a client sees who keeps reloading the status page of one ticket, and whether that can have been the truth.

Owns the thread that reloads. The judgement is pure: it knows in which order states may follow each other.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

INTERVAL: Final = 0.05
"""Seconds between two looks."""
_LEGAL: Final = {
    "accepted": {"running", "retrying", "done", "quarantined"},
    "running": {"accepted", "retrying", "done", "quarantined"},
    "retrying": {"running", "done", "quarantined"},
    "done": set[str](),
    "quarantined": set[str](),
}
"""Which states may follow within a generation; a look may miss those in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What the page said, and when it began to say so (Unix seconds)."""

    state: str
    attempts: int
    generation: int
    at: float

    def __str__(self) -> str:
        return f"{self.state} ({self.attempts})" if self.attempts else self.state


class Reader:
    """Reloads the page until it is told to stop, and keeps every change."""

    def __init__(self, look: Callable[[], dict[str, Any]]) -> None:
        self._look = look
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="status page", daemon=True)
        self._sights: list[Sight] = []
        self.looks = 0
        self.failure: Exception | None = None

    @property
    def sights(self) -> tuple[Sight, ...]:
        """The changes so far, oldest first."""
        return tuple(self._sights)

    def has_shown(self, state: str) -> bool:
        """Tell whether the page has ever shown this state."""
        return any(sight.state == state for sight in self.sights)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more, after a last look."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _read(self) -> None:
        last = False
        while not last:
            last = self._stop.wait(INTERVAL)
            try:
                page = self._look()
            except (AssertionError, OSError) as error:
                self.failure = self.failure or error
                continue
            self.looks += 1
            sight = Sight(state=page["state"], attempts=page["attempts"], generation=page["generation"], at=time.time())
            if not self._sights or replace(sight, at=self._sights[-1].at) != self._sights[-1]:
                self._sights.append(sight)


def untruth(sights: Sequence[Sight]) -> str | None:
    """Return what cannot have been true in this order, or None."""
    for sight in sights:
        if sight.state not in _LEGAL:
            return f"{sight.state} is no state that this ticket can be in"
    for before, after in pairwise(sights):
        step = f"{before}, then {after}"
        if after.generation < before.generation:
            return f"went back a generation: {step}"
        if after.generation > before.generation:
            if before.state != "quarantined":
                return f"replayed without having been in quarantine: {step}"
            continue
        if after.attempts < before.attempts:
            return f"forgot a start: {step}"
        if after.state != before.state and after.state not in _LEGAL[before.state]:
            return f"not in this order: {step}"
        if after.state == before.state and after.state in {"done", "quarantined"}:
            return f"changed after its end: {step}"
    return None
