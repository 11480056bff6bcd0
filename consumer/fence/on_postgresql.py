"""The fence's transactions on PostgreSQL, for nodes on several machines."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.exc import StatementError
from sqlalchemy.ext.asyncio import AsyncEngine

from consumer.fence import statements
from consumer.fence.answers import FenceRefuses
from consumer.fence.entry import COLUMNS, Entry, Question, answer

_ABOUT_ROWS: Final = ("22", "23")
"""Classes of SQLSTATE: data exceptions, and constraints."""
_LOCK: Final = text(statements.LOCK)
_READ: Final = text(statements.read("= ANY (CAST(:tickets AS varchar[])) ORDER BY ticket FOR UPDATE"))
_WRITE: Final = text(statements.write(f"VALUES ({', '.join(f':{name}' for name in COLUMNS)})"))


class PostgresqlLedger:
    """The tables in one database. Locks the tickets of a batch before it reads them: a node elsewhere waits."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def settle(self, questions: Sequence[Question]) -> list[Any]:
        """Answer a batch in one transaction; raises FenceRefuses, and else what the driver raises."""
        try:
            return await self._settle(questions)
        except (StatementError, UnicodeEncodeError) as error:
            if _is_refusal(error):
                raise FenceRefuses(f"{type(error).__name__}: {error}") from error
            raise

    async def _settle(self, questions: Sequence[Question]) -> list[Any]:
        tickets = {question.ticket for question in questions}
        async with self._engine.begin() as connection:
            await connection.execute(_LOCK, {"keys": sorted(map(_key, tickets))})
            rows = await connection.execute(_READ, {"tickets": list(tickets)})
            answers, changed = answer(questions, {row[0]: Entry._make(row) for row in rows})
            if changed:
                await connection.execute(_WRITE, [entry._asdict() for entry in changed])
        return answers

    async def execute(self, statement: str, parameters: Mapping[str, Any]) -> int:
        """Carry out one statement in a transaction of its own; returns how many rows it concerned."""
        async with self._engine.begin() as connection:
            return (await connection.execute(text(statement), dict(parameters))).rowcount

    async def find(self, statement: str, parameters: Mapping[str, Any]) -> Sequence[Any] | None:
        """Return the first row of a query, None where there is none."""
        async with self._engine.connect() as connection:
            return (await connection.execute(text(statement), dict(parameters))).first()

    async def close(self) -> None:
        """Close all connections."""
        await self._engine.dispose()


def _is_refusal(error: BaseException) -> bool:
    """Tell whether a row is what is wrong, and not the store: the server says so, or the driver cannot even send it."""
    state = getattr(getattr(error, "orig", None), "sqlstate", None)
    if state is not None:
        return str(state).startswith(_ABOUT_ROWS)
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ValueError):
        cause = cause.__cause__
    return cause is not None


def _key(ticket: str) -> int:
    return int.from_bytes(blake2b(ticket.encode(), digest_size=8).digest(), signed=True)
