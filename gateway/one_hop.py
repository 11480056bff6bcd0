"""SQLite's driver with one change of threads for a statement and all its rows.

Owns how a statement gets to the thread of its connection, and that the thread ends once. aiosqlite goes there for a
cursor, for the statement, for its rows and for the cursor's end, each by itself, and each time two threads wait for
each other. So this reads all rows at once: it is not for results that are read as they come.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Self

import aiosqlite
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

_CHUNK: Final = 64
"""Rows that aiosqlite reads ahead; nothing here does."""

Row = Sequence[Any]


class OneHop(aiosqlite.Connection):
    """A connection whose cursors are SQLAlchemy's alone."""

    _ending: "asyncio.Future[Any] | None" = None

    @classmethod
    def to(cls, database: str, **options: Any) -> Self:
        """Return a connection to be awaited; arguments as `sqlite3.connect` takes them."""
        opened = cls(lambda: sqlite3.connect(database, **options), _CHUNK)
        opened._thread.daemon = True  # as SQLAlchemy has it: a process may end without closing its connections
        return opened

    def stop(self) -> "asyncio.Future[Any] | None":
        """Have the thread close the connection and end, which it does once, whoever asks for it again."""
        if self._ending is None:
            self._ending = super().stop()
        return self._ending

    async def close(self) -> None:
        """Return when the thread has closed the connection.

        SQLAlchemy goes on with a close that is cancelled, and stops the thread beside it. aiosqlite's own would then
        ask a thread that has ended, and wait for its answer for ever: a program told to end while it opened its store
        did not end.
        """
        ending = self.stop()
        if ending is not None and self._thread.is_alive():
            await asyncio.wait({ending})  # not the future itself, which would be cancelled for all others as well

    def cursor(self) -> "_Cursor":  # type: ignore[override]  # needs no thread to be made
        """Return a cursor for one statement."""
        return _Cursor(self)

    async def run(self, step: Callable[[sqlite3.Connection], tuple[sqlite3.Cursor, list[Row]]]) -> Any:
        """Go to the connection's thread once."""
        return await self._execute(step, self._conn)  # type: ignore[no-untyped-call]  # theirs


class _Cursor:
    """What SQLAlchemy's adapter uses of a cursor. Of it, only a statement goes to the thread."""

    def __init__(self, connection: OneHop) -> None:
        self._connection = connection
        self._rows: list[Row] = []
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Self:
        """Execute a statement and read all that it returns."""
        return await self._run(lambda connection: connection.execute(statement, parameters))

    async def executemany(self, statement: str, parameters: Iterable[Sequence[Any]]) -> Self:
        """Execute a statement that returns nothing for each of many parameters."""
        return await self._run(lambda connection: connection.executemany(statement, parameters))

    async def fetchall(self) -> list[Row]:
        """Return the rows, once."""
        rows, self._rows = self._rows, []
        return rows

    async def close(self) -> None:
        """Hold nothing: the statement's own cursor is closed already."""

    async def _run(self, begin: Callable[[sqlite3.Connection], sqlite3.Cursor]) -> Self:
        def act(connection: sqlite3.Connection) -> tuple[sqlite3.Cursor, list[Row]]:
            cursor = begin(connection)
            rows = cursor.fetchall() if cursor.description else []
            cursor.close()
            return cursor, rows

        done, self._rows = await self._connection.run(act)
        self.description, self.rowcount, self.lastrowid = done.description, done.rowcount, done.lastrowid
        return self


def use(engine: AsyncEngine) -> None:
    """Make an engine of aiosqlite that has not connected yet connect this way."""

    def connect(_dialect: object, _record: object, _arguments: object, options: dict[str, Any]) -> None:
        options["async_creator_fn"] = OneHop.to

    sa.event.listen(engine.sync_engine, "do_connect", connect)
