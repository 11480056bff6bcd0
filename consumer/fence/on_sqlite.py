"""The fence's transactions on SQLite: one thread of its own, one connection, one hop for a whole batch."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from consumer import store
from consumer.fence import statements
from consumer.fence.entry import Entry, Question, answer

T = TypeVar("T")


class SqliteLedger:
    """The tables in one file. Any failure closes the connection: the next transaction begins with a fresh one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fence")
        self._open: sqlite3.Connection | None = None

    async def settle(self, questions: Sequence[Question]) -> list[Any]:
        """Answer a batch in one transaction; raises what the driver raises."""
        return await self._in_thread(lambda: self._settle(questions))

    async def execute(self, statement: str, parameters: Mapping[str, Any]) -> int:
        """Carry out one statement in a transaction of its own; returns how many rows it concerned."""

        def act() -> int:
            with self._transaction() as connection:
                return connection.execute(statement, parameters).rowcount

        return await self._in_thread(act)

    async def find(self, statement: str, parameters: Mapping[str, Any]) -> Sequence[Any] | None:
        """Return the first row of a query, None where there is none."""

        def act() -> Sequence[Any] | None:
            with self._transaction() as connection:
                found: Sequence[Any] | None = connection.execute(statement, parameters).fetchone()
                return found

        return await self._in_thread(act)

    async def close(self) -> None:
        """Let go of the file, once what is under way has ended."""
        await self._in_thread(self._let_go)
        self._thread.shutdown(wait=False)

    async def _in_thread(self, act: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, act)

    def _settle(self, questions: Sequence[Question]) -> list[Any]:
        with self._transaction() as connection:
            found: dict[str, Entry] = {}
            for ticket in {question.ticket for question in questions}:
                row = connection.execute(statements.READ_ONE, {"ticket": ticket}).fetchone()
                if row is not None:
                    found[ticket] = Entry.from_row(row)
            answers, changed = answer(questions, found)
            connection.executemany(statements.WRITE, [entry.row() for entry in changed])
        return answers

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        if self._open is None:
            self._open = sqlite3.connect(self._path)
        try:
            if self._open.isolation_level is not None:
                store.prepare_sqlite(self._open)
            self._open.execute("BEGIN IMMEDIATE")
            yield self._open
            self._open.execute("COMMIT")
        except BaseException:
            self._let_go()
            raise

    def _let_go(self) -> None:
        connection, self._open = self._open, None
        if connection is not None:
            connection.close()
