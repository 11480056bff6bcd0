"""Licenses a start by its stamp, and remembers what was decided about it (C19).

Owns the tables `starts` and `nodes` in the store. Never licenses a stamp that is not greater than the last one recorded
for its ticket, so that copies of a message (an uncertain publish repeated, a reclaim repeated by a crash, a dead-letter
duplicate) run once. A decision is recorded before it is published: who finds it after a crash repeats it.

Every answer is durable when it is given. All requests of one moment share one transaction.
"""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    Integer,
    MetaData,
    Row,
    String,
    Table,
    Text,
    event,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from consumer import verdict
from consumer.verdict import Decision
from gateway.contract.outcomes import Stamp

_BUSY_SECONDS: Final = 10

metadata = MetaData()
starts = Table(
    "starts",
    metadata,
    Column("ticket", String(128), primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("interruptions", Integer, nullable=False),
    Column("holder", String(128), nullable=False),
    Column("started_at", Float, nullable=False, comment="Unix seconds; 0 when decided without a start"),
    Column("decision", Text, nullable=True),
    Column("closed", Boolean, nullable=False),
    Column("digest", String(64), nullable=False, comment="of the body: tells a copy from another ticket"),
)
nodes = Table(
    "nodes",
    metadata,
    Column("node", String(128), primary_key=True),
    Column("lane", String(16), nullable=False),
    Column("beat_at", Float, nullable=False, comment="Unix seconds"),
)


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
            engine = create_async_engine(url, connect_args={"timeout": 10} if url.startswith("sqlite") else {})
        except (ArgumentError, ModuleNotFoundError) as error:
            raise FenceUnavailable(f"store URL cannot be used: {error}") from error
        if engine.dialect.name == "sqlite":
            event.listen(engine.sync_engine, "connect", _prepare_sqlite)
            event.listen(engine.sync_engine, "begin", _begin_immediate)
        try:
            async with engine.begin() as connection:
                await connection.run_sync(metadata.create_all)
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
        """Record what is done about a start; the first decision stands and is returned. Raises FenceUnavailable."""
        written = verdict.write(decision)  # here, where what cannot be written fails alone

        async def act(connection: AsyncConnection) -> Decision | Superseded | Conflict:
            row = await _row(connection, ticket)
            stale = None if row is None else _stale(row, stamp, digest)
            if stale is not None:
                return stale
            if row is not None and _stamp(row) == stamp and row.decision is not None:
                return verdict.read(row.decision)
            same = row is not None and _stamp(row) == stamp
            await _put(
                connection,
                ticket,
                stamp,
                holder=row.holder if same and row is not None else "",
                started_at=row.started_at if same and row is not None else 0.0,
                decision=written,
                closed=decision.final,
                digest=digest,
            )
            return decision

        decided: Decision | Superseded | Conflict = await self._ask(act)
        return decided

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
    }
    await connection.execute(_upsert(connection, starts, row, key="ticket"))


def _upsert(connection: AsyncConnection, table: Table, row: dict[str, Any], *, key: str) -> Any:
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table).values(row)
    changes = {name: statement.excluded[name] for name in row if name != key}
    return statement.on_conflict_do_update(index_elements=[key], set_=changes)


def _prepare_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}")
    cursor.execute("PRAGMA synchronous=FULL")
    _use_write_ahead_log(cursor)
    cursor.close()


def _use_write_ahead_log(cursor: Any) -> None:
    """Change the journal's mode once for all; of several first ones, SQLite tells all but one "locked" at once."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.fetchone()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _begin_immediate(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
