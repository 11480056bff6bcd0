"""The fence's transactions on PostgreSQL, for nodes on several machines."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from consumer.fence import statements
from consumer.fence.entry import Entry, Question, answer

_LOCK = text(statements.LOCK)
_READ = text(statements.READ_AND_LOCK)
_WRITE = text(statements.WRITE)


class PostgresqlLedger:
    """The tables in one database. Locks the tickets of a batch before it reads them: a node elsewhere waits."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def settle(self, questions: Sequence[Question]) -> list[Any]:
        """Answer a batch in one transaction; raises what the driver raises."""
        tickets = {question.ticket for question in questions}
        async with self._engine.begin() as connection:
            await connection.execute(_LOCK, {"keys": sorted(map(_key, tickets))})
            rows = await connection.execute(_READ, {"tickets": list(tickets)})
            answers, changed = answer(questions, {row[0]: Entry.from_row(row) for row in rows})
            if changed:
                await connection.execute(_WRITE, [entry.row() for entry in changed])
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


def _key(ticket: str) -> int:
    return int.from_bytes(blake2b(ticket.encode(), digest_size=8).digest(), signed=True)
