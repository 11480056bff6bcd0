"""The door's side of `gateway.station.submissions`: in time or not at all, and many at the price of one commit.

Owns when the store is asked: what comes while a transaction is under way waits for the next one, and shares it. Nobody
waits longer than a deadline, and what nobody waits for any more is undone.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract import logs
from gateway.contract.ids import uuid7
from gateway.states import States
from gateway.station import submissions
from gateway.station.store import Store
from gateway.station.submissions import Claim, Claimed, Confirmed, Found, Recorded

log = logging.getLogger("gateway.repetitions")

DEADLINE: Final = 3.0
"""Seconds to wait for the store, twice in a submission: before its publish and after."""
_PATIENCE: Final = 2.0
"""Of them for the write lock of SQLite."""
_STUCK: Final = 6.0
"""Seconds after which a transaction with a server is given up; SQLite's end by themselves."""
_MOST_TOGETHER: Final = 128
_MOST_WAITING: Final = 4096
_FORGET_EVERY: Final = 60.0
_FORGET_TOGETHER: Final = 500

T = TypeVar("T")


class NoStore(Exception):
    """The store did not answer in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Release:
    held: Claim


@dataclass(slots=True)
class _Asked:
    question: Claim | Confirmed | _Release
    answer: asyncio.Future[Any]

    @property
    def ticket(self) -> str:
        return self.question.ticket if isinstance(self.question, Claim) else self.question.held.ticket


class Repetitions:
    """Claims, records and releases tickets; `run()` until cancelled."""

    def __init__(self, states: States, *, lease: float, keep: float) -> None:
        """`lease` and `keep` in seconds: for one try to publish, and for the memory of it."""
        self._states = states
        self.lease = lease
        self.keep = keep
        self._waiting: deque[_Asked] = deque()
        self._asked = asyncio.Event()
        self._failing = False

    async def claim(self, ticket: str, digest: str) -> tuple[Claim, Found]:
        """Claim a ticket for one publish; raises NoStore."""
        wanted = Claim(ticket=ticket, digest=digest, holder=uuid7(), lease=self.lease, keep=self.keep)
        found: Found = await self._ask(wanted)
        return wanted, found

    async def record(self, held: Claim, status: int, answer: bytes) -> Recorded:
        """Record the answer to a confirmed publish; return the one that counts. Raises NoStore."""
        recorded: Recorded = await self._ask(Confirmed(held=held, status=status, answer=answer))
        return recorded

    def release(self, held: Claim) -> None:
        """Let go of a claim soon; whoever asks at this door afterwards finds it released."""
        self._put(_Asked(_Release(held=held), asyncio.get_running_loop().create_future()))

    async def run(self) -> None:
        """Carry out what is asked, and forget what is over, until cancelled."""
        await self._states.looked()  # a door is open sooner than its store: what comes in between waits, and is no 503
        forget_at = 0.0
        while True:
            try:
                async with asyncio.timeout(_FORGET_EVERY):
                    await self._asked.wait()
            except TimeoutError:
                pass
            batch = self._next_batch()
            if batch:
                await self._carry_out(batch)
            if time.monotonic() >= forget_at:
                await self._forget()
                forget_at = time.monotonic() + _FORGET_EVERY

    async def _ask(self, question: Claim | Confirmed) -> Any:
        asked = _Asked(question, asyncio.get_running_loop().create_future())
        self._put(asked)
        await asyncio.wait({asked.answer}, timeout=DEADLINE)
        if not asked.answer.done():
            asked.answer.cancel()
            raise NoStore
        return asked.answer.result()

    def _put(self, asked: _Asked) -> None:
        if len(self._waiting) >= _MOST_WAITING:
            _disappoint(asked)
            return
        self._waiting.append(asked)
        self._asked.set()

    def _next_batch(self) -> list[_Asked]:
        """Take what waits, each ticket once and in its order; the rest keeps its place."""
        batch: dict[str, _Asked] = {}
        left = deque[_Asked]()
        while self._waiting and len(batch) < _MOST_TOGETHER:
            asked = self._waiting.popleft()
            if asked.answer.done() and isinstance(asked.question, Claim):
                continue  # nobody waits any more; what was confirmed is recorded all the same
            if batch.setdefault(asked.ticket, asked) is not asked:
                left.append(asked)
        left.extend(self._waiting)
        self._waiting = left
        if not left:
            self._asked.clear()
        return list(batch.values())

    async def _carry_out(self, batch: list[_Asked]) -> None:
        claims = [(asked, asked.question) for asked in batch if isinstance(asked.question, Claim)]
        confirmed = [(asked, asked.question) for asked in batch if isinstance(asked.question, Confirmed)]
        released = [asked.question.held for asked in batch if isinstance(asked.question, _Release)]

        async def all_of_them(transaction: AsyncConnection) -> list[Found]:
            now = time.time()
            await submissions.release(transaction, released)
            return [
                *await submissions.claim(transaction, [question for _, question in claims], now),
                *await submissions.record(transaction, [question for _, question in confirmed], now),
            ]

        answers = await self._within(all_of_them)
        for (asked, question), answer in zip([*claims, *confirmed], answers or repeat(None), strict=False):
            if answer is None:
                _disappoint(asked)
            elif not asked.answer.done():
                asked.answer.set_result(answer)
            elif isinstance(question, Claim) and isinstance(answer, Claimed):
                self.release(question)

    async def _within(self, step: Callable[[AsyncConnection], Awaitable[T]]) -> T | None:
        """Carry out a step in a transaction; None when that did not succeed, whatever became of it."""
        store = self._states.store
        if store is None:
            return None
        try:
            async with asyncio.timeout(None if store.dialect == "sqlite" else _STUCK):
                answer = await _transact(store, step)
        except Exception as error:  # noqa: BLE001 - whatever a driver raises: the door goes on without the store
            if not self._failing:
                logs.event(log, "submissions_unavailable", logging.WARNING, error=error)
            self._failing = True
            return None
        self._failing = False
        return answer

    async def _forget(self) -> None:
        forgotten: int | None = _FORGET_TOGETHER
        while forgotten == _FORGET_TOGETHER and not self._waiting:
            forgotten = await self._within(
                lambda transaction: submissions.forget(transaction, time.time(), _FORGET_TOGETHER)
            )


async def _transact(store: Store, step: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    async with store.writing(patience=_PATIENCE) as transaction:
        return await step(transaction)


def _disappoint(asked: _Asked) -> None:
    if not asked.answer.done():
        asked.answer.set_exception(NoStore())
        asked.answer.exception()  # heard, although nobody may ask for it
