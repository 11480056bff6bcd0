"""The fence's place in the store: its tables `starts` and `nodes`, and how they come to be.

Owns the layout. A store that an earlier version has laid out gets the columns it lacks when it is opened; nothing is
ever renamed or dropped.
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
    Integer,
    MetaData,
    String,
    Table,
    Text,
    event,
    inspect,
    text,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.schema import CreateColumn

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
    Column("spent_tokens", BigInteger, nullable=False, server_default="0", comment="by this start alone, so far"),
    Column("spent_usd", Float, nullable=False, server_default="0", comment="by this start alone, so far"),
)
nodes = Table(
    "nodes",
    metadata,
    Column("node", String(128), primary_key=True),
    Column("lane", String(16), nullable=False),
    Column("beat_at", Float, nullable=False, comment="Unix seconds"),
)


def engine_of(url: str) -> AsyncEngine:
    """Return an engine that nobody has connected with yet; raises ArgumentError or ModuleNotFoundError."""
    engine = create_async_engine(url, connect_args={"timeout": _BUSY_SECONDS} if url.startswith("sqlite") else {})
    if engine.dialect.name == "sqlite":
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_immediate)
    return engine


async def lay_out(connection: AsyncConnection) -> None:
    """Create the tables, and what an earlier version's tables lack; raises SQLAlchemyError."""
    await connection.run_sync(metadata.create_all)
    await connection.run_sync(_add_missing_columns)


def _add_missing_columns(connection: Connection) -> None:
    # Several nodes may open one store at once: on SQLite they take turns, since a transaction begins with the lock.
    unless_there = "IF NOT EXISTS " if connection.dialect.name == "postgresql" else ""
    for table in metadata.tables.values():
        there = {column["name"] for column in inspect(connection).get_columns(table.name)}
        for column in table.columns:
            if column.name not in there:
                wanted = CreateColumn(column).compile(dialect=connection.dialect)
                connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {unless_there}{wanted}"))


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
