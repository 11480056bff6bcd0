"""What the nodes of one handler build know of its first runs together, and whether it has been stopped.

Owns the tables `first_runs` and `storms` in the fence's store, and the memory of a node that has none. A build that is
stopped stays stopped, on every node and over every restart, until somebody lifts it; another build knows nothing of it.
"""

import importlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, Protocol, TypeVar

import orjson
from sqlalchemy import Boolean, Column, Float, Integer, String, Table, Text, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from consumer import store
from consumer.fence import FenceUnavailable
from consumer.store import metadata
from consumer.storm import Rule, Storm, Tally, judge
from gateway.contract.text import clip

T = TypeVar("T")

_MAX_BUILD: Final = 255
_MAX_EVIDENCE: Final = 1024
_LONGEST_SPAN: Final = 86400.0
"""Seconds after which first runs of any build are removed, also of those that no node runs any more."""

first_runs = Table(
    "first_runs",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("build", String(_MAX_BUILD), nullable=False, index=True),
    Column("node", String(128), nullable=False),
    Column("at", Float, nullable=False, comment="Unix seconds"),
    Column("survived", Integer, nullable=False, comment="first runs that ended before this one, since the node's last"),
    Column("died", String(128), nullable=True, comment="the ticket whose first run ended with a dead worker"),
    Column("evidence", Text, nullable=False),
)
storms = Table(
    "storms",
    metadata,
    Column("build", String(_MAX_BUILD), primary_key=True),
    Column("storm", Text, nullable=True, comment="what stopped the build; null while it may run"),
    Column("announced", Boolean, nullable=False),
)


class StormMemory(Protocol):
    """Remembers for one build; two implementations: the fence's store, and this process (`LAZARETTO_FENCE=off`)."""

    async def note(self, build: str, tallies: Sequence[Tally], /, *, node: str, now: float) -> Storm | None:
        """Remember first runs and return the storm that stops the build, if there is one; raises FenceUnavailable."""

    async def owes_alert(self, build: str, /) -> bool:
        """Tell whether nobody has announced this build's storm yet; raises FenceUnavailable."""

    async def announced(self, build: str, /) -> None:
        """Remember that the storm has been announced; raises FenceUnavailable."""

    async def lift(self, build: str, /) -> bool:
        """Forget storm and first runs; False when there was no storm any more. Raises FenceUnavailable."""

    async def close(self) -> None:
        """Let go of the store."""


class OwnMemory:
    """Of this process alone: over with it."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._tallies: deque[Tally] = deque(maxlen=rule.window)
        self._storm: Storm | None = None
        self._owed = False

    async def note(self, _build: str, tallies: Sequence[Tally], /, *, node: str, now: float) -> Storm | None:
        """Remember and judge."""
        self._tallies.extendleft(tallies)
        if self._storm is None and (found := judge(self._tallies, self._rule, now)) is not None:
            self._storm, self._owed = replace(found, by=node), True
        return self._storm

    async def owes_alert(self, _build: str, /) -> bool:
        """Tell whether it is still to be announced."""
        return self._owed

    async def announced(self, _build: str, /) -> None:
        """Remember that it was."""
        self._owed = False

    async def lift(self, _build: str, /) -> bool:
        """Forget everything."""
        was_there, self._storm, self._owed = self._storm is not None, None, False
        self._tallies.clear()
        return was_there

    async def close(self) -> None:
        """Do nothing."""


class StoreMemory:
    """Shared by all nodes that share the store."""

    def __init__(self, url: str, rule: Rule) -> None:
        self._engine = store.engine_of(url)
        self._rule = rule

    async def note(self, build: str, tallies: Sequence[Tally], /, *, node: str, now: float) -> Storm | None:
        """Remember first runs and return the storm that stops the build, if there is one; raises FenceUnavailable."""
        build = clip(build, _MAX_BUILD)

        async def act(connection: AsyncConnection) -> Storm | None:
            if tallies:  # one node at a time: of five deaths at once on as many nodes, one must be the fifth
                await _take_turns(connection, build)
            text = (await connection.execute(select(storms.c.storm).where(storms.c.build == build))).scalar()
            if text is not None:
                return _read(text)
            if tallies:
                await self._add(connection, build, tallies, node=node, now=now)
            if not any(tally.died for tally in tallies):
                return None
            found = judge(await _newest_first(connection, build, self._rule), self._rule, now)
            if found is not None:
                found = replace(found, by=node)
                written = {"storm": orjson.dumps(asdict(found)).decode(), "announced": False}
                await connection.execute(update(storms).where(storms.c.build == build).values(written))
            return found

        return await self._transact(act)

    async def _add(
        self, connection: AsyncConnection, build: str, tallies: Sequence[Tally], *, node: str, now: float
    ) -> None:
        of_build = first_runs.c.build == build
        again = first_runs.c.died.in_([tally.died for tally in tallies if tally.died])  # its answer was lost
        await connection.execute(delete(first_runs).where(of_build, again | (first_runs.c.at < now - self._rule.span)))
        await connection.execute(delete(first_runs).where(first_runs.c.at < now - _LONGEST_SPAN))
        rows = [
            {
                "build": build,
                "node": node,
                "at": tally.at,
                "survived": tally.survived,
                "died": tally.died,
                "evidence": clip(tally.evidence, _MAX_EVIDENCE),
            }
            for tally in tallies
        ]
        await connection.execute(insert(first_runs), rows)

    async def owes_alert(self, build: str, /) -> bool:
        """Tell whether nobody has announced this build's storm yet; raises FenceUnavailable."""
        query = select(storms.c.announced).where(storms.c.build == clip(build, _MAX_BUILD), storms.c.storm.is_not(None))

        async def act(connection: AsyncConnection) -> bool:
            return (await connection.execute(query)).scalar() is False

        return await self._transact(act)

    async def announced(self, build: str, /) -> None:
        """Remember that the storm has been announced; raises FenceUnavailable."""
        change = update(storms).where(storms.c.build == clip(build, _MAX_BUILD)).values(announced=True)

        async def act(connection: AsyncConnection) -> None:
            await connection.execute(change)

        await self._transact(act)

    async def lift(self, build: str, /) -> bool:
        """Forget storm and first runs; False when there was no storm any more. Raises FenceUnavailable."""
        build = clip(build, _MAX_BUILD)
        stopped = (storms.c.build == build) & storms.c.storm.is_not(None)

        async def act(connection: AsyncConnection) -> bool:
            changed = await connection.execute(update(storms).where(stopped).values(storm=None))
            if changed.rowcount:
                await connection.execute(delete(first_runs).where(first_runs.c.build == build))
            return bool(changed.rowcount)

        return await self._transact(act)

    async def close(self) -> None:
        """Let go of the store."""
        await self._engine.dispose()

    async def _transact(self, act: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        try:
            async with self._engine.begin() as connection:
                return await act(connection)
        except Exception as error:
            raise FenceUnavailable(f"{type(error).__name__}: {error}") from error


async def _take_turns(connection: AsyncConnection, build: str) -> None:
    # By name, and not by an import of both: that of PostgreSQL brings all its drivers along.
    dialect = importlib.import_module(f"sqlalchemy.dialects.{connection.dialect.name}")
    row = dialect.insert(storms).values(build=build, storm=None, announced=False)
    await connection.execute(row.on_conflict_do_update(index_elements=["build"], set_={"build": row.excluded.build}))


async def _newest_first(connection: AsyncConnection, build: str, rule: Rule) -> list[Tally]:
    query = select(first_runs).where(first_runs.c.build == build).order_by(first_runs.c.id.desc()).limit(rule.window)
    rows: Sequence[Any] = (await connection.execute(query)).all()
    return [Tally(at=row.at, survived=row.survived, died=row.died, evidence=row.evidence) for row in rows]


def _read(text: str) -> Storm:
    row = orjson.loads(text)
    return Storm(**{**row, "items": tuple(row["items"])})
