"""What pages ask of the whole store, remembered for a while: charts over days, and what there is to choose from.

Owns how long that is: in proportion to what asking cost, so that a small store is always up to date and a large one
is not counted anew for everybody who looks.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from gateway.station import catalogue, trends
from gateway.station.store import Store
from gateway.station.trends import Trend

LONGEST: Final = 60.0
"""Seconds."""
_TIMES: Final = 100
DAYS: Final = 14
_DAY: Final = 86400

Answer = TypeVar("Answer")


class Remembered(Generic[Answer]):
    """The answer to one question, asked again when it is old."""

    def __init__(self, ask: Callable[[], Awaitable[Answer]], *, longest: float) -> None:
        """`longest` is in seconds."""
        self._ask = ask
        self._longest = longest
        self._asking = asyncio.Lock()
        self._answer: Answer | None = None
        self._until = float("-inf")

    async def get(self) -> Answer:
        """Return the answer; who comes while it is being asked waits for that one."""
        async with self._asking:
            begun = time.monotonic()
            if self._answer is None or begun >= self._until:
                self._answer = await self._ask()
                ended = time.monotonic()
                self._until = ended + min(self._longest, (ended - begun) * _TIMES)
            return self._answer


class Almanac:
    """These questions of one desk."""

    def __init__(self, store: Store, *, longest: float = LONGEST) -> None:
        self._store = store
        self.quarantines = Remembered(self._quarantines, longest=longest)
        self.losses = Remembered(self._losses, longest=longest)
        self.choices = Remembered(self._choices, longest=longest)

    async def _quarantines(self) -> Trend:
        return await trends.quarantines(self._store, trends.last(time.time(), width=_DAY, parts=DAYS))

    async def _losses(self) -> Trend:
        return await trends.losses(self._store, trends.last(time.time(), width=_DAY, parts=DAYS))

    async def _choices(self) -> dict[str, list[str]]:
        return await catalogue.choices(self._store)
