"""The station's store: one engine, its transactions, and the question that the door asks.

Owns how a transaction begins and what makes it durable. Writers take the write lock at once (BEGIN IMMEDIATE), so
that two of them wait for each other instead of failing halfway; every process of one machine may open the same file.
"""

import os
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from gateway.contract.outcomes import TicketState
from gateway.station import tables

BUSY_TIMEOUT_MS: Final = 10_000
_WRITES: Final = "lazaretto_writes"
_MAKING: Final = 0x1A2A_0002
"""Key of the lock that whoever makes the tables holds."""
_PATIENCE: Final = "lazaretto_patience_ms"


class StoreVersion(Exception):
    """The store was made by another version of the program; the text names both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketStatus:
    """Where a ticket stands, as its client may know it."""

    ticket: str
    kind: str
    state: TicketState
    attempts: int
    """Charged starts of this generation so far."""
    generation: int
    updated_at: float
    """Unix seconds."""
    client: str | None
    """Who submitted it; None when no report named a client."""
    detail: str | None
    """Why it is quarantined or discarded; a reason code."""


class Store:
    """The open store. Every method raises sqlalchemy.exc.SQLAlchemyError while the database cannot be used."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    @classmethod
    async def open(cls, url: str) -> Self:
        """Connect, make the tables that are missing, raise the version; raises StoreVersion, OperationalError, OSError.

        Whoever comes first makes the tables: a door may be asked about a ticket before a station ever ran. Where they
        are there, nothing is written: a store that is locked, full or read-only can still be read.
        """
        store = cls(_engine(_readable(url)))
        try:
            async with store.reading() as transaction:
                complete = await _is_complete(transaction)
            if not complete:
                async with store.writing() as transaction:
                    await _complete(transaction)
        except BaseException:
            await store.close()
            raise
        return store

    async def close(self) -> None:
        """Close all connections; the store cannot be used afterwards."""
        await self._engine.dispose()

    @property
    def dialect(self) -> str:
        """The database's name, `sqlite` or `postgresql`."""
        return self._engine.dialect.name

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that only reads, all of it at one moment."""
        async with self._engine.connect() as connection:
            yield connection

    @asynccontextmanager
    async def writing(self, *, patience: float = BUSY_TIMEOUT_MS / 1000) -> AsyncIterator[AsyncConnection]:
        """A transaction that holds the write lock from its first statement; committed at the end, or not at all.

        `patience` is for how many seconds it waits for the lock.
        """
        async with self._engine.connect() as connection:
            await connection.execution_options(**{_WRITES: True, _PATIENCE: round(patience * 1000)})
            async with connection.begin():
                yield connection

    async def writable(self, *, patience: float = BUSY_TIMEOUT_MS / 1000) -> bool:
        """Tell whether a commit succeeds within `patience` seconds: writes one row and keeps nothing of it."""
        try:
            async with self.writing(patience=patience) as transaction:
                probe = sa.update(tables.schema).values(version=tables.schema.c.version)
                await transaction.execute(probe)
        except (sa.exc.SQLAlchemyError, OSError):
            return False
        return True

    async def ticket_status(self, ticket: str) -> TicketStatus | None:
        """Return where `ticket` stands; None when no report about it has arrived yet."""
        return (await self.ticket_statuses([ticket])).get(ticket)

    async def ticket_statuses(self, wanted: Collection[str]) -> dict[str, TicketStatus]:
        """Return where tickets stand, in one query; those of which no report has arrived yet are not there."""
        async with self.reading() as transaction:
            rows = await transaction.execute(sa.select(tables.tickets).where(tables.tickets.c.ticket.in_(wanted)))
            return {row.ticket: _status(row) for row in rows}


def _status(row: Any) -> TicketStatus:
    return TicketStatus(
        ticket=row.ticket,
        kind=row.kind,
        state=TicketState(row.state),
        attempts=row.attempts,
        generation=row.generation,
        updated_at=row.updated_at,
        client=row.client,
        detail=row.detail,
    )


async def _complete(transaction: AsyncConnection) -> None:
    """Make what is missing; whoever was faster has done it already."""
    if transaction.dialect.name == "postgresql":  # of two that create one table at once, one would fail
        await transaction.execute(sa.text(f"SELECT pg_advisory_xact_lock({_MAKING})"))
    if await _is_complete(transaction):
        return
    await transaction.run_sync(tables.metadata.create_all)
    raised = sa.update(tables.schema).values(version=tables.SCHEMA_VERSION)
    if not (await transaction.execute(raised)).rowcount:
        await transaction.execute(sa.insert(tables.schema).values(version=tables.SCHEMA_VERSION))


async def _is_complete(transaction: AsyncConnection) -> bool:
    """Tell whether all tables are there; raises StoreVersion for a version that this one cannot be made of."""
    if not await transaction.run_sync(lambda connection: sa.inspect(connection).has_table(tables.schema.name)):
        return False
    found = await transaction.scalar(sa.select(sa.func.max(tables.schema.c.version)))
    if found is not None and not tables.UPGRADABLE_FROM <= found <= tables.SCHEMA_VERSION:
        raise StoreVersion(f"the store has schema {found}, this program works with {tables.SCHEMA_VERSION}")
    return bool(found == tables.SCHEMA_VERSION)


def _readable(url: str) -> str:
    """Return the URL under which a store can at least be read.

    SQLite reads a write-ahead log only where it may make an index beside it, unless it is told that nothing changes:
    which is so where nobody may write and no log is left.
    """
    parsed = make_url(url)
    path = Path(parsed.database or "")
    if (
        parsed.get_backend_name() != "sqlite"
        or not path.is_file()
        or os.access(path.parent, os.W_OK, effective_ids=True)
    ):
        return url
    if path.with_name(f"{path.name}-wal").exists():
        return url
    unchanging = {"mode": "ro", "immutable": "1", "uri": "true"}
    location = parsed.set(database=f"file:{quote(str(path))}", query=unchanging)
    return location.render_as_string(hide_password=False)


def _engine(url: str) -> AsyncEngine:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return create_async_engine(url, pool_pre_ping=True)
    engine = create_async_engine(url, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000})
    if "immutable" in parsed.query:
        sa.event.listen(engine.sync_engine, "connect", _leave_transactions_to_us)
    else:
        Path(parsed.database or "").parent.mkdir(parents=True, exist_ok=True)
        sa.event.listen(engine.sync_engine, "connect", _prepare)
    sa.event.listen(engine.sync_engine, "begin", _begin)
    return engine


def _leave_transactions_to_us(connection: DBAPIConnection, _record: object) -> None:
    # The driver would begin transactions by itself, always deferred; `_begin` does it instead.
    connection.isolation_level = None


def _prepare(connection: DBAPIConnection, record: object) -> None:
    _leave_transactions_to_us(connection, record)
    cursor = connection.cursor()
    try:
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        _use_write_ahead_log(cursor)
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
    finally:
        cursor.close()


def _use_write_ahead_log(cursor: DBAPICursor) -> None:
    # Only the first process ever changes the mode, but two may be first: SQLite answers the second one "locked"
    # without waiting for its busy timeout.
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        cursor.execute("PRAGMA journal_mode")
        if cursor.fetchone() == ("wal",):
            return
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            cursor.fetchone()
        except Exception as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _begin(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    patience = connection.get_execution_options().get(_PATIENCE, BUSY_TIMEOUT_MS)
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {patience}")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
