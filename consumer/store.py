"""The fence's place in the store: its tables `starts` and `nodes`, and how they come to be.

Owns the layout. A store that an earlier version has laid out gets the columns and indexes it lacks when it is opened;
no column is ever renamed or dropped.
"""

import sqlite3
import time
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    event,
    inspect,
    text,
    update,
)
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.schema import CreateColumn

_BUSY_SECONDS: Final = 10
_DURABLE: Final = {"synchronous_commit": "on"}
"""An answer is durable when it is given, whatever the server does by default."""
_LAYING_OUT: Final = 0x1A2A_0001
"""Key of the lock that whoever lays out the tables holds."""

_ENDED: Final = text("ended_at IS NOT NULL")
"""Of what is under way no index is kept."""
_GIVEN_UP: Final = ("starts_by_end",)
"""Indexes of earlier versions, which cost upkeep and are asked for nothing any more."""

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
    Column("spent_tokens", BigInteger, nullable=False, server_default="0", comment="by this start alone, so far"),
    Column("spent_usd", Float, nullable=False, server_default="0", comment="by this start alone, so far"),
    Column(
        "token", String(36), nullable=False, server_default="", comment="of the one delivery that it was licensed to"
    ),
    Column("pardon", Integer, nullable=True, comment="the generation whose attempts an operator has given back"),
    Column("ended_at", Float, nullable=True, comment="Unix seconds at which the generation was closed"),
    Index("starts_ended", "ended_at", sqlite_where=_ENDED, postgresql_where=_ENDED),
)
nodes = Table(
    "nodes",
    metadata,
    Column("node", String(128), primary_key=True),
    Column("lane", String(16), nullable=False),
    Column("beat_at", Float, nullable=False, comment="Unix seconds on its own clock, which never runs backwards"),
    Column("every", Float, nullable=True, comment="seconds between its beats"),
)


def engine_of(url: str) -> AsyncEngine:
    """Return an engine that nobody has connected with yet; raises ArgumentError or ModuleNotFoundError."""
    if make_url(url).get_backend_name() == "sqlite":
        from gateway import one_hop  # noqa: PLC0415 - the driver is for who uses it

        engine = create_async_engine(url, connect_args={"timeout": _BUSY_SECONDS})
        one_hop.use(engine)
        event.listen(engine.sync_engine, "connect", prepare_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_immediate)
        return engine
    patience = {"timeout": _BUSY_SECONDS, "command_timeout": _BUSY_SECONDS}
    return create_async_engine(
        url, isolation_level="READ COMMITTED", connect_args={**patience, "server_settings": _DURABLE}
    )


async def lay_out(connection: AsyncConnection) -> None:
    """Create the tables, and what an earlier version's tables lack; raises SQLAlchemyError."""
    if connection.dialect.name == "postgresql":  # CREATE ... IF NOT EXISTS by two at once fails one of them
        await connection.execute(text(f"SELECT pg_advisory_xact_lock({_LAYING_OUT})"))
    await connection.run_sync(metadata.create_all)
    await connection.run_sync(_add_missing_columns)
    await connection.run_sync(_renew_indexes)


def _add_missing_columns(connection: Connection) -> None:
    # Several nodes may open one store at once: on SQLite they take turns, since a transaction begins with the lock.
    unless_there = "IF NOT EXISTS " if connection.dialect.name == "postgresql" else ""
    for table in metadata.tables.values():
        there = {column["name"] for column in inspect(connection).get_columns(table.name)}
        for column in table.columns:
            if column.name not in there:
                wanted = CreateColumn(column).compile(dialect=connection.dialect)
                connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {unless_there}{wanted}"))


def _renew_indexes(connection: Connection) -> None:
    for table in metadata.tables.values():
        for index in table.indexes:
            index.create(connection, checkfirst=True)
    for name in _GIVEN_UP:
        connection.execute(text(f"DROP INDEX IF EXISTS {name}"))
    # What an earlier version closed has no end on record: it counts from now.
    undated = update(starts).where(starts.c.closed, starts.c.ended_at.is_(None))
    connection.execute(undated.values(ended_at=time.time()))


def prepare_sqlite(connection: Any, _: object = None) -> None:
    """Make a connection durable and patient, with transactions that begin where we say so."""
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
