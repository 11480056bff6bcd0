"""What pages ask of the whole store, remembered for a while: charts over days, groups, what waits for whom,
and what there is to choose from.

Owns how long that is: in proportion to what asking cost, so that a small store is always up to date and a large one
is not counted anew for everybody who looks.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from gateway.station import caseload, catalogue, deaths, escalations, groups, trends, unsent
from gateway.station.caseload import Load
from gateway.station.deaths import Losses
from gateway.station.escalations import Escalation
from gateway.station.groups import Group
from gateway.station.selection import WAITING, Filter
from gateway.station.store import Store
from gateway.station.trends import Trend
from gateway.station.unsent import Unsent

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
        self.loads = Remembered(self._loads, longest=longest)
        self.deaths = Remembered(self._deaths, longest=longest)
        self.groups = Remembered(self._groups, longest=longest)
        self.escalations = Remembered(self._escalations, longest=longest)
        self.unsent = Remembered(self._unsent, longest=longest)

    async def _quarantines(self) -> Trend:
        return await trends.quarantines(self._store, trends.last(time.time(), width=_DAY, parts=DAYS))

    async def _losses(self) -> Trend:
        return await trends.losses(self._store, trends.last(time.time(), width=_DAY, parts=DAYS))

    async def _choices(self) -> dict[str, list[str]]:
        return await catalogue.choices(self._store)

    async def _loads(self) -> list[Load]:
        async with self._store.reading() as transaction:
            return await caseload.loads(transaction, time.time())

    async def _deaths(self) -> Losses:
        return await deaths.recent(self._store, time.time())

    async def _groups(self) -> list[Group]:
        return await groups.find(self._store, Filter(states=WAITING))

    async def _escalations(self) -> tuple[list[Escalation], int]:
        """Those that are open, as many as one list has, and the number of all."""
        async with self._store.reading() as transaction:
            number = await escalations.count_open(transaction)
        return (await escalations.find_open(self._store) if number else []), number

    async def _unsent(self) -> Sequence[Unsent]:
        return await unsent.find(self._store)
