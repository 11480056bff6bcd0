"""The fence's transactions on SQLite: one thread of its own, one connection, one hop for a whole batch."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain
from typing import Any, Final, TypeVar

from consumer import store
from consumer.fence import statements
from consumer.fence.answers import FenceRefuses
from consumer.fence.entry import COLUMNS, Entry, Question, answer

T = TypeVar("T")

_REFUSALS: Final = (sqlite3.DataError, sqlite3.IntegrityError, OverflowError, UnicodeEncodeError)
"""What is wrong with a row, and not with the store."""
_MOST_ROWS: Final = 64
"""In one statement: SQLite before 3.32 takes 999 values, and these are 896."""


class SqliteLedger:
    """The tables in one file. Any failure closes the connection: the next transaction begins with a fresh one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fence")
        self._open: sqlite3.Connection | None = None

    async def settle(self, questions: Sequence[Question]) -> list[Any]:
        """Answer a batch in one transaction; raises FenceRefuses, and else what the driver raises."""
        try:
            return await self._in_thread(lambda: self._settle(questions))
        except _REFUSALS as error:
            raise FenceRefuses(f"{type(error).__name__}: {error}") from error

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
        tickets = list({question.ticket: None for question in questions})
        with self._transaction() as connection:
            found: dict[str, Entry] = {}
            for some in _parts(tickets):
                rows = connection.execute(_read(len(some)), some).fetchall()
                found.update((row[0], Entry._make(row)) for row in rows)
            answers, changed = answer(questions, found)
            for written in _parts(changed):
                connection.execute(_write(len(written)), list(chain.from_iterable(written)))
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


def _parts(whole: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut into parts of few different lengths, so that their statements stay prepared."""
    begin = 0
    while begin < len(whole):
        size = min(_MOST_ROWS, 1 << (len(whole) - begin).bit_length() - 1)
        yield whole[begin : begin + size]
        begin += size


@cache
def _read(number: int) -> str:
    return statements.read(f"IN ({', '.join('?' * number)})")


@cache
def _write(number: int) -> str:
    row = f"({', '.join('?' * len(COLUMNS))})"
    return statements.write(f"VALUES {', '.join([row] * number)}")
