"""Licenses a start by its stamp, and remembers what was decided about it (C19).

Owns the rows of `starts` and `nodes` in the store. Never licenses a stamp that is not greater than the last one on
record for its ticket, so that copies of a message (an uncertain publish repeated, a reclaim repeated by a crash, a
dead-letter duplicate) run once. A decision is recorded before it is published: who finds it after a crash repeats it.
What a run spends is recorded with its start, and is in the decision about that start once, whoever takes it.

Every answer is durable when it is given. All requests of one moment share one transaction.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from sqlalchemy import Row, Table, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from consumer import store, verdict
from consumer.store import nodes, starts
from consumer.verdict import Decision
from gateway.contract.envelope import Spent
from gateway.contract.outcomes import Stamp


@dataclass(frozen=True, slots=True)
class Licensed:
    """The start is recorded; it may begin."""


@dataclass(frozen=True, slots=True)
class Superseded:
    """A copy: a start of this stamp or a greater one is on record, or the generation is closed."""

    why: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """Not a copy: another body under the id of a ticket that is on record. It may not start, nor be dropped."""

    why: str


class FenceUnavailable(Exception):
    """The store gave no answer; nothing may start or be settled until it does."""


class Fence(Protocol):
    """Licenses starts; two implementations: the store, and none (`LAZARETTO_FENCE=off`)."""

    async def license(
        self, ticket: str, stamp: Stamp, /, *, holder: str, now: float, digest: str
    ) -> Licensed | Superseded | Conflict:
        """Record one start, or refuse it; raises FenceUnavailable."""

    async def decide(
        self, ticket: str, stamp: Stamp, decision: Decision, /, *, digest: str
    ) -> Decision | Superseded | Conflict:
        """Record what is done about a start; the first decision stands and is returned. Raises FenceUnavailable."""

    async def spend(self, ticket: str, stamp: Stamp, spent: Spent, /) -> bool:
        """Record what one start has spent so far; False when it is none to be paid for any more: decided, or overtaken.

        Raises FenceUnavailable.
        """

    async def spent(self, ticket: str, stamp: Stamp, /) -> Spent:
        """Return what one start is known to have spent; raises FenceUnavailable."""

    async def beat(self, node: str, lane: str, now: float) -> None:
        """Record that a node is alive; raises FenceUnavailable."""

    async def close(self) -> None:
        """Let go of the store."""


class Open:
    """No fence: every start is licensed; copies run, and the journal shows it (P9)."""

    async def license(self, _ticket: str, _stamp: Stamp, /, *, holder: str, now: float, digest: str) -> Licensed:
        """License it."""
        del holder, now, digest
        return Licensed()

    async def decide(self, _ticket: str, _stamp: Stamp, decision: Decision, /, *, digest: str) -> Decision:
        """Return the decision as it is."""
        del digest
        return decision

    async def spend(self, _ticket: str, _stamp: Stamp, _spent: Spent, /) -> bool:
        """Record nothing: what a run spends is as durable as its supervisor."""
        return True

    async def spent(self, _ticket: str, _stamp: Stamp, /) -> Spent:
        """Know nothing."""
        return Spent()

    async def beat(self, node: str, lane: str, now: float) -> None:
        """Record nothing."""

    async def close(self) -> None:
        """Do nothing."""


_Act = Callable[[AsyncConnection], Awaitable[Any]]


class StoreFence:
    """The fence in the station's store: SQLite on one machine, PostgreSQL for several."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._waiting: list[tuple[_Act, asyncio.Future[Any]]] = []
        self._woken = asyncio.Event()
        self._writer = asyncio.create_task(self._write_batches(), name="fence")

    @classmethod
    async def open(cls, url: str) -> "StoreFence":
        """Connect to the store and create the fence's tables; raises FenceUnavailable."""
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
        return cls(engine)

    async def license(
        self, ticket: str, stamp: Stamp, /, *, holder: str, now: float, digest: str
    ) -> Licensed | Superseded | Conflict:
        """Record one start, or refuse it; raises FenceUnavailable."""

        async def act(connection: AsyncConnection) -> Licensed | Superseded | Conflict:
            row = await _row(connection, ticket)
            stale = None if row is None else _stale(row, stamp, digest)
            if stale is not None:
                return stale
            if row is not None and _stamp(row) == stamp:
                return Superseded(f"start {stamp} is on record")
            await _put(connection, ticket, stamp, holder=holder, started_at=now, digest=digest)
            return Licensed()

        licensed: Licensed | Superseded | Conflict = await self._ask(act)
        return licensed

    async def decide(
        self, ticket: str, stamp: Stamp, decision: Decision, /, *, digest: str
    ) -> Decision | Superseded | Conflict:
        """Record what is done about a start; the first decision stands and is returned. Raises FenceUnavailable.

        What the start was recorded to have spent is in it, once, whoever decides.
        """
        verdict.write(decision)  # here, where what cannot be written fails alone

        async def act(connection: AsyncConnection) -> Decision | Superseded | Conflict:
            row = await _row(connection, ticket)
            stale = None if row is None else _stale(row, stamp, digest)
            if stale is not None:
                return stale
            if row is not None and _stamp(row) == stamp and row.decision is not None:
                return verdict.read(row.decision)
            same = row is not None and _stamp(row) == stamp
            whole = (
                replace(decision, spent=_most(decision.spent, _spent(row))) if same and row is not None else decision
            )
            await _put(
                connection,
                ticket,
                stamp,
                holder=row.holder if same and row is not None else "",
                started_at=row.started_at if same and row is not None else 0.0,
                decision=verdict.write(whole),
                closed=decision.final,
                digest=digest,
                spent=whole.spent,
            )
            return whole

        decided: Decision | Superseded | Conflict = await self._ask(act)
        return decided

    async def spend(self, ticket: str, stamp: Stamp, spent: Spent, /) -> bool:
        """Record what one start has spent so far, in any order; False when it is decided or overtaken.

        Raises FenceUnavailable.
        """

        async def act(connection: AsyncConnection) -> bool:
            row = await _row(connection, ticket)
            if row is None or _stamp(row) != stamp or row.decision is not None:
                return False
            most = _most(_spent(row), spent)
            change = update(starts).where(starts.c.ticket == ticket)
            await connection.execute(change.values(spent_tokens=most.tokens, spent_usd=most.usd))
            return True

        kept: bool = await self._ask(act)
        return kept

    async def spent(self, ticket: str, stamp: Stamp, /) -> Spent:
        """Return what one start is known to have spent; raises FenceUnavailable."""

        async def act(connection: AsyncConnection) -> Spent:
            row = await _row(connection, ticket)
            return Spent() if row is None or _stamp(row) != stamp else _spent(row)

        known: Spent = await self._ask(act)
        return known

    async def beat(self, node: str, lane: str, now: float) -> None:
        """Record that a node is alive; raises FenceUnavailable."""

        async def act(connection: AsyncConnection) -> None:
            row = {"node": node, "lane": lane, "beat_at": now}
            await connection.execute(_upsert(connection, nodes, row, key="node"))

        await self._ask(act)

    async def close(self) -> None:
        """Answer what is waiting with FenceUnavailable and let go of the store."""
        self._writer.cancel()
        await asyncio.gather(self._writer, return_exceptions=True)
        self._refuse(self._take(), FenceUnavailable("the fence is closed"))
        await self._engine.dispose()

    async def _ask(self, act: _Act) -> Any:
        if self._writer.done():
            raise FenceUnavailable("the fence is closed")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((act, answer))
        self._woken.set()
        return await answer

    def _take(self) -> list[tuple[_Act, asyncio.Future[Any]]]:
        batch, self._waiting = self._waiting, []
        self._woken.clear()
        return batch

    @staticmethod
    def _refuse(batch: list[tuple[_Act, asyncio.Future[Any]]], error: Exception) -> None:
        for _, answer in batch:
            if not answer.done():
                answer.set_exception(error)

    async def _write_batches(self) -> None:
        while True:
            await self._woken.wait()
            batch = self._take()
            try:
                async with self._engine.begin() as connection:
                    results = [await act(connection) for act, _ in batch]
            except asyncio.CancelledError:
                self._refuse(batch, FenceUnavailable("the fence is closed"))
                raise
            except Exception as error:  # noqa: BLE001  whatever the driver raises, the askers must hear it: none may wait for ever
                self._refuse(batch, FenceUnavailable(f"{type(error).__name__}: {error}"))
                continue
            for (_, answer), result in zip(batch, results, strict=True):
                if not answer.done():
                    answer.set_result(result)


def _stamp(row: Row[Any]) -> Stamp:
    return Stamp(generation=row.generation, attempt=row.attempt, interruptions=row.interruptions)


def _spent(row: Row[Any]) -> Spent:
    return Spent(tokens=row.spent_tokens, usd=row.spent_usd)


def _most(one: Spent, other: Spent) -> Spent:
    """Return the later of two totals of one run: they only grow, and may be told in any order."""
    return Spent(tokens=max(one.tokens, other.tokens), usd=max(one.usd, other.usd))


def _stale(row: Row[Any], stamp: Stamp, digest: str) -> Superseded | Conflict | None:
    """Return why a message may no longer start anything, or None; one stamp on record is not stale by itself."""
    if row.generation == stamp.generation and row.digest != digest:
        return Conflict(f"ticket {row.ticket} is on record with another body")
    if _stamp(row) > stamp:
        return Superseded(f"start {_stamp(row)} is on record, this one is {stamp}")
    if row.closed and row.generation == stamp.generation and _stamp(row) != stamp:
        return Superseded(f"generation {row.generation} is closed")
    return None


async def _row(connection: AsyncConnection, ticket: str) -> Row[Any] | None:
    query = select(starts).where(starts.c.ticket == ticket)
    if connection.dialect.name == "postgresql":
        query = query.with_for_update()
    return (await connection.execute(query)).one_or_none()


async def _put(
    connection: AsyncConnection,
    ticket: str,
    stamp: Stamp,
    *,
    holder: str,
    started_at: float,
    digest: str,
    decision: str | None = None,
    closed: bool = False,
    spent: Spent = Spent(),  # noqa: B008  frozen
) -> None:
    row = {
        "ticket": ticket,
        "generation": stamp.generation,
        "attempt": stamp.attempt,
        "interruptions": stamp.interruptions,
        "holder": holder,
        "started_at": started_at,
        "decision": decision,
        "closed": closed,
        "digest": digest,
        "spent_tokens": spent.tokens,
        "spent_usd": spent.usd,
    }
    await connection.execute(_upsert(connection, starts, row, key="ticket"))


def _upsert(connection: AsyncConnection, table: Table, row: dict[str, Any], *, key: str) -> Any:
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table).values(row)
    changes = {name: statement.excluded[name] for name in row if name != key}
    return statement.on_conflict_do_update(index_elements=[key], set_=changes)
