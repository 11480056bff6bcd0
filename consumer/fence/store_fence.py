"""The fence in the station's store: whoever asks at one moment shares a transaction.

Owns the queue of questions and its one writer. Knows no SQL and no rule.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from consumer import store
from consumer.fence import entry, statements
from consumer.fence.answers import (
    Answered,
    Conflict,
    FenceRefuses,
    FenceUnavailable,
    Licensed,
    Pulse,
    Recollection,
    Superseded,
)
from consumer.fence.entry import Question, Rule
from consumer.fence.on_postgresql import PostgresqlLedger
from consumer.fence.on_sqlite import SqliteLedger
from consumer.fence.slate import Slate, Slates
from consumer.verdict import Decision
from gateway.contract.envelope import Spent
from gateway.contract.outcomes import Stamp

_MAX_BATCH: Final = 256
"""Questions in one transaction; a PostgreSQL server has room for a few thousand locks."""
_MAX_FORGOTTEN: Final = 500
_SHARE: Final = 2
"""Of so many starts under way one is expected to ask soon; a transaction waits for all of those, but not for long."""
_LINGER_SECONDS: Final = 0.002
"""What two starts at once would not notice, and a transaction takes about as long."""


class Ledger(Protocol):
    """The fence's tables in one store; two implementations. Whatever a driver raises may come out of it."""

    async def settle(self, questions: Sequence[Question]) -> list[Any]:
        """Answer a batch in one transaction, durable on return; raises FenceRefuses where some of it never can be."""

    async def execute(self, statement: str, parameters: Mapping[str, Any]) -> int:
        """Carry out one statement; returns how many rows it concerned."""

    async def find(self, statement: str, parameters: Mapping[str, Any]) -> Sequence[Any] | None:
        """Return the first row of a query."""

    async def close(self) -> None:
        """Let go of the store."""


class StoreFence:
    """SQLite on one machine, PostgreSQL for several. What each method does, `Fence` says.

    `slates` are those of all that share the store, None where they do not share a machine.
    """

    def __init__(self, ledger: Ledger, slates: Slates | None = None) -> None:
        self._ledger = ledger
        self._slates = slates
        self._slate: Slate | None = None
        self._has_beaten = False
        self._waiting: list[tuple[Question, asyncio.Future[Any]]] = []
        self._woken = asyncio.Event()
        self._lingering: asyncio.TimerHandle | None = None
        self._under_way: set[tuple[str, Stamp]] = set()
        """Starts that were licensed here and are not decided."""
        self._loop = asyncio.get_running_loop()
        self._writer = asyncio.create_task(self._write_batches(), name="fence")

    @classmethod
    async def open(cls, url: str) -> "StoreFence":
        """Connect to the store and lay out the fence's tables; raises FenceUnavailable."""
        try:
            shown = make_url(url).render_as_string(hide_password=True)
            engine = store.engine_of(url)
        except (ArgumentError, ModuleNotFoundError) as error:
            raise FenceUnavailable(f"store URL cannot be used: {error}") from error
        try:
            async with engine.begin() as connection:
                await store.lay_out(connection)
        except (SQLAlchemyError, OSError) as error:
            await engine.dispose()
            raise FenceUnavailable(f"store {shown}: {error}") from error
        if engine.dialect.name == "postgresql":
            return cls(PostgresqlLedger(engine))
        await engine.dispose()
        path = engine.url.database or ""
        return cls(SqliteLedger(path), Slates(Path(f"{path}-slates")))

    async def license(
        self, ticket: str, stamp: Stamp, /, *, holder: str, now: float, digest: str, token: str = ""
    ) -> Answered:
        """Record one start, or refuse it."""
        rule = entry.license_start(ticket, stamp, holder=holder, now=now, digest=digest, token=token)
        answered: Answered = await self._ask(ticket, rule)
        if isinstance(answered, Licensed):
            self._under_way.add((ticket, stamp))
        return answered

    async def decide(
        self, ticket: str, stamp: Stamp, decision: Decision, /, *, digest: str
    ) -> Decision | Superseded | Conflict:
        """Record what is done about a start; the first decision stands and is returned."""
        rule = entry.decide_start(ticket, stamp, decision, digest=digest, now=time.time())
        decided: Decision | Superseded | Conflict = await self._ask(ticket, rule)
        if isinstance(decided, Conflict):  # the start of that name is another ticket's, and goes on
            return decided
        self._under_way.discard((ticket, stamp))
        if self._slate is not None:
            self._slate.decided(ticket, stamp)
        return decided

    async def recall(
        self, ticket: str, stamp: Stamp, /, *, digest: str, message: str = ""
    ) -> Recollection | Superseded | Conflict:
        """Return what is on record about a start."""
        rule = entry.recall_start(stamp, digest=digest, message=message)
        known: Recollection | Superseded | Conflict = await self._ask(ticket, rule)
        return known

    async def spend(self, ticket: str, stamp: Stamp, spent: Spent, /) -> bool:
        """Record what one start has spent so far, in any order; False when it is decided or overtaken."""
        kept: bool = await self._ask(ticket, entry.record_spend(stamp, spent))
        return kept

    async def spent(self, ticket: str, stamp: Stamp, /) -> Spent:
        """Return what one start is known to have spent."""
        known: Spent = await self._ask(ticket, entry.recall_spend(stamp))
        return known

    @property
    def tells_begun(self) -> bool:
        """Tell whether this node's slate is whole."""
        return self._slate is not None and self._slate.is_whole

    def begin(self, ticket: str, stamp: Stamp, /) -> None:
        """Chalk up a licensed start that begins."""
        if self._slate is not None:
            self._slate.begin(ticket, stamp)

    def never_began(self, holder: str, ticket: str, stamp: Stamp, /) -> bool:
        """Tell whether the slate of a life that is over has no such start."""
        return self._slates is not None and self._slates.never_began(holder, ticket, stamp)

    async def beat(self, node: str, lane: str, pulse: Pulse, /) -> None:
        """Record that a node is alive. Its first beat brings it its slate, or none: a later one would have gaps."""
        if not self._has_beaten and self._slates is not None:
            self._slate = self._slates.open(node)
        self._has_beaten = True
        row = {"node": node, "lane": lane, "beat_at": pulse.beat, "every": pulse.every}
        await self._try(self._ledger.execute(statements.BEAT, row))

    async def pulse(self, node: str, /) -> Pulse | None:
        """Return a node's last sign of life."""
        row = await self._try(self._ledger.find(statements.PULSE, {"node": node}))
        return None if row is None else Pulse(beat=row[0], every=row[1])

    async def forget(self, *, silent_since: float, ended_before: float | None) -> int:
        """Remove what is no longer needed, a little at a time."""
        if self._slates is not None:
            self._slates.sweep(silent_since=silent_since)
        await self._try(self._ledger.execute(statements.FORGET_NODES, {"silent_since": silent_since}))
        if ended_before is None:
            return 0
        aged = {"ended_before": ended_before, "at_most": _MAX_FORGOTTEN}
        gone: int = await self._try(self._ledger.execute(statements.FORGET_STARTS, aged))
        return gone

    async def close(self) -> None:
        """Answer what is waiting with FenceUnavailable and let go of the store."""
        self._writer.cancel()
        await asyncio.gather(self._writer, return_exceptions=True)
        self._refuse(self._waiting, FenceUnavailable("the fence is closed"))
        if self._slate is not None:
            self._slate.close()
        await self._ledger.close()

    async def _ask(self, ticket: str, rule: Rule) -> Any:
        if self._writer.done():
            raise FenceUnavailable("the fence is closed")
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append((Question(ticket, rule), answer))
        if len(self._waiting) * _SHARE >= len(self._under_way):
            self._woken.set()
        elif self._lingering is None:
            self._lingering = self._loop.call_later(_LINGER_SECONDS, self._woken.set)
        return await answer

    async def _try(self, step: Any) -> Any:
        try:
            return await step
        except Exception as error:
            raise FenceUnavailable(f"{type(error).__name__}: {error}") from error

    @staticmethod
    def _refuse(batch: list[tuple[Question, asyncio.Future[Any]]], error: Exception) -> None:
        for _, answer in batch:
            if not answer.done():
                answer.set_exception(error)

    async def _answers(self, questions: list[Question]) -> list[Any]:
        """Return an answer to each, an exception where there is none; what the store refuses is found by halves."""
        try:
            return await self._ledger.settle(questions)
        except FenceRefuses as error:
            if len(questions) == 1:
                return [error]
        except Exception as error:  # noqa: BLE001  whatever the driver raises, the askers must hear it: none may wait for ever
            return [FenceUnavailable(f"{type(error).__name__}: {error}")] * len(questions)
        half = len(questions) // 2
        return [*await self._answers(questions[:half]), *await self._answers(questions[half:])]

    async def _write_batches(self) -> None:
        while True:
            await self._woken.wait()
            if self._lingering is not None:
                self._lingering.cancel()
                self._lingering = None
            batch, self._waiting = self._waiting[:_MAX_BATCH], self._waiting[_MAX_BATCH:]
            if not self._waiting:
                self._woken.clear()
            try:
                answers = await self._answers([question for question, _ in batch])
            except asyncio.CancelledError:
                self._refuse(batch, FenceUnavailable("the fence is closed"))
                raise
            for (_, waiting), said in zip(batch, answers, strict=True):
                if waiting.done():
                    continue
                if isinstance(said, Exception):
                    waiting.set_exception(said)
                else:
                    waiting.set_result(said)
