"""Waiting that counts only the time in which this process ran.

A supervisor that was stopped, or whose whole machine stood still, has heard nobody meanwhile and may hold that against
nobody. Owns no judgement: what has come in is read before it is over, and may renew it.
"""

import asyncio
from collections.abc import Callable
from typing import Final

_SHARES: Final = 8
_LONGEST_SHARE: Final = 0.5
"""Seconds. A longer wait takes more shares, so that standing still in one of them costs little."""
_ROOM: Final = 0.25
"""Seconds by which a busy loop may be late without having stood still."""


class Forbearance:
    """Calls `over` when `seconds` have passed since the last `renew`, in shares; one that took too long is repeated.

    `listen` is called first: what it hears may renew, or cancel.
    """

    def __init__(self, seconds: float, over: Callable[[], None], *, listen: Callable[[], None]) -> None:
        self._seconds = self._left = seconds
        self._over = over
        self._listen = listen
        self._share = min(seconds / _SHARES, _LONGEST_SHARE)
        self._loop = asyncio.get_running_loop()
        self._cancelled = False
        self._timer = self._next()

    def renew(self) -> None:
        """Count from now."""
        self._left = self._seconds

    def cancel(self) -> None:
        """Wait no more."""
        self._cancelled = True
        self._timer.cancel()

    def _next(self) -> asyncio.TimerHandle:
        share = min(self._share, self._left)
        return self._loop.call_later(share, self._passed, share, self._loop.time() + share)

    def _passed(self, share: float, due: float) -> None:
        if self._loop.time() - due <= share + _ROOM:
            self._left -= share
        if self._left <= 0:
            self._listen()
        if self._cancelled:
            return
        if self._left > 0:
            self._timer = self._next()
        else:
            self._over()
