"""The fence in the station's store: whoever asks at one moment shares a transaction.

Owns the queue of questions and its one writer. Knows no SQL and no rule.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from consumer import store
from consumer.fence import entry, statements
from consumer.fence.answers import Answered, Conflict, FenceUnavailable, Pulse, Recollection, Superseded
from consumer.fence.entry import Question, Rule
from consumer.fence.on_postgresql import PostgresqlLedger
from consumer.fence.on_sqlite import SqliteLedger
from consumer.verdict import Decision
from gateway.contract.envelope import Spent
from gateway.contract.outcomes import Stamp

_MAX_BATCH: Final = 256
"""Questions in one transaction; a PostgreSQL server has room for a few thousand locks."""
_MAX_FORGOTTEN: Final = 500


class Ledger(Protocol):
    """The fence's tables in one store; two implementations. Whatever a driver raises may come out of it."""

    async def settle(self, questions: Sequence[Question]) -> list[Any]:
        """Answer a batch in one transaction, durable on return."""

    async def execute(self, statement: str, parameters: Mapping[str, Any]) -> int:
        """Carry out one statement; returns how many rows it concerned."""

    async def find(self, statement: str, parameters: Mapping[str, Any]) -> Sequence[Any] | None:
        """Return the first row of a query."""

    async def close(self) -> None:
        """Let go of the store."""


class StoreFence:
    """SQLite on one machine, PostgreSQL for several. What each method does, `Fence` says."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: list[tuple[Question, asyncio.Future[Any]]] = []
        self._woken = asyncio.Event()
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
        return cls(SqliteLedger(engine.url.database or ""))

    async def license(
        self, ticket: str, stamp: Stamp, /, *, holder: str, now: float, digest: str, token: str = ""
    ) -> Answered:
        """Record one start, or refuse it."""
        rule = entry.license_start(ticket, stamp, holder=holder, now=now, digest=digest, token=token)
        answered: Answered = await self._ask(ticket, rule)
        return answered

    async def decide(
        self, ticket: str, stamp: Stamp, decision: Decision, /, *, digest: str
    ) -> Decision | Superseded | Conflict:
        """Record what is done about a start; the first decision stands and is returned."""
        rule = entry.decide_start(ticket, stamp, decision, digest=digest, now=time.time())
        decided: Decision | Superseded | Conflict = await self._ask(ticket, rule)
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

    async def beat(self, node: str, lane: str, pulse: Pulse, /) -> None:
        """Record that a node is alive."""
        row = {"node": node, "lane": lane, "beat_at": pulse.beat, "every": pulse.every}
        await self._try(self._ledger.execute(statements.BEAT, row))

    async def pulse(self, node: str, /) -> Pulse | None:
        """Return a node's last sign of life."""
        row = await self._try(self._ledger.find(statements.PULSE, {"node": node}))
        return None if row is None else Pulse(beat=row[0], every=row[1])

    async def forget(self, *, silent_since: float, ended_before: float | None) -> int:
        """Remove what is no longer needed, a little at a time."""
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
        await self._ledger.close()

    async def _ask(self, ticket: str, rule: Rule) -> Any:
        if self._writer.done():
            raise FenceUnavailable("the fence is closed")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((Question(ticket, rule), answer))
        self._woken.set()
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

    async def _write_batches(self) -> None:
        while True:
            await self._woken.wait()
            batch, self._waiting = self._waiting[:_MAX_BATCH], self._waiting[_MAX_BATCH:]
            if not self._waiting:
                self._woken.clear()
            try:
                answers = await self._ledger.settle([question for question, _ in batch])
            except asyncio.CancelledError:
                self._refuse(batch, FenceUnavailable("the fence is closed"))
                raise
            except Exception as error:  # noqa: BLE001  whatever the driver raises, the askers must hear it: none may wait for ever
                self._refuse(batch, FenceUnavailable(f"{type(error).__name__}: {error}"))
                continue
            for (_, waiting), said in zip(batch, answers, strict=True):
                if waiting.done():
                    continue
                if isinstance(said, Exception):
                    waiting.set_exception(said)
                else:
                    waiting.set_result(said)
