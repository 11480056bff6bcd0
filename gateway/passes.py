"""The passes that this door knows of: read from the store every few seconds, asked for in memory.

Owns that no refusal waits for the store: a flood of them asks it nothing. A pass counts a moment after it was given.
"""

import asyncio
import logging
import time
from typing import Final

from gateway.admission import Refused
from gateway.contract import logs
from gateway.contract.rules import SOFT
from gateway.refusals import fingerprint
from gateway.states import States
from gateway.station import passes
from gateway.station.passes import Pass

log = logging.getLogger("gateway.passes")

_LOOK_EVERY: Final = 1.0


class Passes:
    """What reviewers let in anyway; `run()` until cancelled."""

    def __init__(self, states: States) -> None:
        self._states = states
        self._live: dict[tuple[str, str], Pass] = {}

    async def run(self) -> None:
        """Look again and again; while the store cannot be read, what is known stays in force until it expires."""
        while True:
            if (store := self._states.store) is not None:
                try:
                    found = await passes.live(store, time.time())
                    self._live = {(one.client, one.fingerprint): one for one in reversed(found)}
                except Exception as error:  # noqa: BLE001 - tickets do not need the store, whatever its driver raises
                    logs.event(log, "passes_unreadable", logging.DEBUG, error=error)
            await asyncio.sleep(_LOOK_EVERY)

    def granted(self, refusal: Refused, client: str, body: bytes, content_type: str | None) -> Pass | None:
        """Return the pass for what was just refused, if somebody gave one and a ticket can be read."""
        if not self._live or any(violation.rule not in SOFT for violation in refusal.violations):
            return None
        found = self._live.get((client, fingerprint(body, content_type)))
        return found if found is not None and found.expires_at > time.time() else None
