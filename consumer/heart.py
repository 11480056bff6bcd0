"""This node's signs of life in the store, and how far its own view of the store can be trusted (P8).

Owns the name of this life of the node, which starts are recorded under: a node that was killed and started again under
its old name is another holder. Also sweeps, a little with every few beats, what nobody will ask for any more.
"""

import asyncio
import logging
import secrets
import time
from typing import Final

from consumer.fence import Fence, FenceUnavailable, Pulse
from consumer.settings import Settings
from gateway.contract.logs import event
from gateway.contract.text import clip

log = logging.getLogger("consumer.heart")

SILENT_SECONDS: Final = 86400.0
"""A node without a beat for so long is forgotten: every judgement that could ask for it is long over."""
_LATE: Final = 2.5
"""Beats without one of our own, after which the store may have missed those of others, too."""
_SWEEP_SECONDS: Final = 60.0
_SWEEP_SHARE: Final = 0.2
"""Of the time between two beats, for sweeping: the beats must not come late, and others write to the store, too."""
_NAME_BYTES: Final = 100


class Heart:
    """Beats until it is told to stop."""

    def __init__(self, settings: Settings, fence: Fence) -> None:
        self.life: Final = f"{clip(settings.name, _NAME_BYTES)}#{secrets.token_hex(4)}"
        """Names this process and no other, ever."""
        self.every: Final = settings.beat
        self._settings = settings
        self._fence = fence
        # Wall clocks can be set back; a beat must be greater than the one before, or a living node would look dead.
        self._ahead = time.time() - time.monotonic()
        self._last: float | None = None
        self._steady_since = 0.0
        self._swept = time.monotonic()

    @staticmethod
    def name_of(life: str) -> str:
        """Return the name of the node whose life this is."""
        return life.rpartition("#")[0]

    @property
    def steady_for(self) -> float:
        """Seconds for which every beat of ours got through; 0 while they do not."""
        now = time.monotonic()
        return now - self._steady_since if self._is_steady(now) else 0.0

    async def beat(self) -> None:
        """Tell the store once that this node is alive."""
        try:
            pulse = Pulse(beat=time.monotonic() + self._ahead, every=self.every)
            await self._fence.beat(self.life, self._settings.lane, pulse)
        except FenceUnavailable as error:
            self._last = None
            event(log, "beat.missed", logging.WARNING, error=error)
            return
        now = time.monotonic()
        if not self._is_steady(now):
            self._steady_since = now
        self._last = now

    async def beat_on(self) -> None:
        """Go on beating for ever."""
        while True:
            await asyncio.sleep(self.every)
            await self.beat()
            if time.monotonic() - self._swept > _SWEEP_SECONDS and await self.sweep():
                self._swept = time.monotonic()

    async def sweep(self) -> bool:
        """Remove what nobody will ask for any more; False when the time for it was over before all of it was gone."""
        until = time.monotonic() + self.every * _SWEEP_SHARE
        kept, tickets = self._settings.fence_retention, 0
        while True:
            now = time.time()
            try:
                gone = await self._fence.forget(
                    silent_since=now - SILENT_SECONDS, ended_before=now - kept if kept else None
                )
            except FenceUnavailable as error:
                event(log, "sweep.missed", logging.WARNING, error=error)
                return True
            tickets += gone
            is_late = time.monotonic() > until
            if not gone or is_late:
                event(log, "sweep.done", logging.DEBUG, tickets=tickets)
                return not gone

    def _is_steady(self, now: float) -> bool:
        return self._last is not None and now - self._last <= _LATE * self.every
