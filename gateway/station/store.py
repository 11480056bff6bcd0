"""The station's store: one engine, its transactions, and the question that the door asks.

Owns how a transaction begins and what makes it durable. Writers take the write lock at once (BEGIN IMMEDIATE), so
that two of them wait for each other instead of failing halfway; every process of one machine may open the same file.
What the tables are is a matter of `gateway.station.revisions`.
"""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from gateway.contract.logs import event
from gateway.contract.outcomes import TicketState
from gateway.station import revisions
from gateway.station.escalation_state import EscalationState, escalation_state
from gateway.station.tables.alerts import escalations
from gateway.station.tables.metadata import schema
from gateway.station.tables.tickets import tickets

BUSY_TIMEOUT_MS: Final = 10_000
_WRITES: Final = "lazaretto_writes"
_MAKING: Final = 0x1A2A_0002
"""Key of the lock that whoever makes or changes the tables holds."""
_CROSSED: Final = frozenset({"40P01", "40001"})
"""PostgreSQL's codes for two transactions of which one had to give way."""
_PATIENCE: Final = "lazaretto_patience_ms"
_ALTERS: Final = "lazaretto_alters"
ALTERING_PATIENCE: Final = 120.0
"""Seconds to wait for somebody else who changes the tables of a large store."""

logger: Final = logging.getLogger("lazaretto.store")

Answer = TypeVar("Answer")


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
    escalation: EscalationState | None = None
    """How far it is handed over to people outside; None where it is not."""
    reference: str | None = None
    """What they call it."""


class Store:
    """The open store. Every method raises sqlalchemy.exc.SQLAlchemyError while the database cannot be used."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._writer = asyncio.Lock()

    @classmethod
    def at(cls, url: str) -> Self:
        """Return a store as it is, without a look at its tables."""
        return cls(_engine(_readable(url)))

    @classmethod
    async def open(cls, url: str) -> Self:
        """Connect, and bring the tables to this program's revision; raises StoreVersion, OperationalError, OSError.

        Whoever comes first makes the tables: a door may be asked about a ticket before a station ever ran. Where they
        are there, nothing is written: a store that is locked, full or read-only can still be read.
        """
        store = cls.at(url)
        try:
            if revisions.is_due(await store.found()):
                await store.migrate()
        except BaseException:
            await store.close()
            raise
        return store

    async def found(self) -> revisions.Found:
        """Return which revision the store has."""
        async with self.reading() as transaction:
            return await revisions.find(transaction)

    async def close(self) -> None:
        """Close all connections; the store cannot be used afterwards."""
        await self._engine.dispose()
        await asyncio.sleep(0)  # a transport that was closed ends in the loop's next turn, which may be the last

    @property
    def dialect(self) -> str:
        """The database's name, `sqlite` or `postgresql`."""
        return self._engine.dialect.name

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that only reads, all of it at one moment."""
        async with self._engine.connect() as connection:
            if self.dialect == "postgresql":  # where each statement would see what was committed since the last one
                await connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            yield connection

    @asynccontextmanager
    async def writing(self, *, patience: float = BUSY_TIMEOUT_MS / 1000) -> AsyncIterator[AsyncConnection]:
        """A transaction that holds the write lock from its first statement; committed at the end, or not at all.

        `patience` is for how many seconds it waits for the lock.
        """
        async with self._turn(patience), self._engine.connect() as connection:
            await connection.execution_options(**{_WRITES: True, _PATIENCE: round(patience * 1000)})
            async with connection.begin():
                yield connection

    @asynccontextmanager
    async def _turn(self, patience: float) -> AsyncIterator[None]:
        """Have those who write in this process wait for each other in their order.

        SQLite has whoever meets its lock sleep and look again, up to a tenth of a second too late each time.
        """
        if self.dialect != "sqlite":
            yield
            return
        async with asyncio.timeout(patience):
            await self._writer.acquire()
        try:
            yield
        finally:
            self._writer.release()

    async def write(self, act: Callable[[AsyncConnection], Awaitable[Answer]]) -> Answer:
        """Do all of `act` in one transaction that writes; again from its beginning where it crossed another one's way.

        PostgreSQL ends one of two that wait for each other, and says so to that one alone.
        """
        while True:
            try:
                async with self.writing() as transaction:
                    return await act(transaction)
            except sa.exc.DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) not in _CROSSED:
                    raise
                event(logger, "store.crossed", error=error)

    async def migrate(self) -> None:
        """Bring the tables to this program's revision, once, whoever else is at it; raises StoreVersion."""
        async with self.altering() as transaction:
            if transaction.dialect.name == "postgresql":  # of two that create one table at once, one would fail
                await transaction.execute(sa.text(f"SELECT pg_advisory_xact_lock({_MAKING})"))
            found = await revisions.find(transaction)
            if not revisions.is_due(found):
                return  # somebody else was faster
            if found.is_empty:
                await revisions.lay_out(transaction)
            else:
                from gateway.station import migrations  # noqa: PLC0415 - Alembic is for who has something to migrate

                await transaction.run_sync(migrations.upgrade)
        event(logger, "store.migrated", before=found, revision=revisions.HEAD)

    @asynccontextmanager
    async def altering(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that may change tables which others refer to; on a connection that is not used again."""
        async with self._engine.connect() as connection:
            patience = round(ALTERING_PATIENCE * 1000)
            await connection.execution_options(**{_WRITES: True, _PATIENCE: patience, _ALTERS: True})
            try:
                async with connection.begin():
                    yield connection
            finally:
                await connection.invalidate()

    async def writable(self, *, patience: float = BUSY_TIMEOUT_MS / 1000) -> bool:
        """Tell whether a commit succeeds within `patience` seconds: writes one row and keeps nothing of it."""
        try:
            async with self.writing(patience=patience) as transaction:
                probe = sa.update(schema).values(version=schema.c.version)
                await transaction.execute(probe)
        except (sa.exc.SQLAlchemyError, OSError):
            return False
        return True

    async def ticket_status(self, ticket: str) -> TicketStatus | None:
        """Return where `ticket` stands; None when no report about it has arrived yet."""
        return (await self.ticket_statuses([ticket])).get(ticket)

    async def ticket_statuses(self, wanted: Collection[str]) -> dict[str, TicketStatus]:
        """Return where tickets stand, in one query; those of which no report has arrived yet are not there."""
        of_now = sa.and_(escalations.c.ticket == tickets.c.ticket, escalations.c.generation == tickets.c.generation)
        told = [escalations.c[name] for name in ("created_at", "sent_at", "closed_at", "acknowledged_at", "reference")]
        query = sa.select(tickets, *told).select_from(tickets.outerjoin(escalations, of_now))
        async with self.reading() as transaction:
            rows = await transaction.execute(query.where(tickets.c.ticket.in_(wanted)))
            return {row.ticket: _status(row) for row in rows}


def _status(row: Any) -> TicketStatus:
    state = TicketState(row.state)
    escalation = escalation_state(
        is_open=state is TicketState.QUARANTINED,
        sent=row.sent_at is not None,
        told_over=row.closed_at is not None,
        acknowledged=row.acknowledged_at is not None,
    )
    return TicketStatus(
        ticket=row.ticket,
        kind=row.kind,
        state=state,
        attempts=row.attempts,
        generation=row.generation,
        updated_at=row.updated_at,
        client=row.client,
        detail=row.detail,
        escalation=None if row.created_at is None else escalation,
        reference=row.reference,
    )


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
    from gateway import one_hop  # noqa: PLC0415 - the driver is for who uses it

    one_hop.use(engine)
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
    if connection.info.get(_PATIENCE) != patience:
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {patience}")
        connection.info[_PATIENCE] = patience
    if connection.get_execution_options().get(_ALTERS, False):
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")  # without effect inside a transaction
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
