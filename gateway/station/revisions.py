"""Which revision of its tables a store has, and whether this program can work with it.

Owns the answer, which costs two small questions, so that a program starts without Alembic where nothing is to be done.
Never guesses: a store that a later program has changed is refused.
"""

from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.station.tables import complete
from gateway.station.tables.metadata import schema

HEAD: Final = "0011"
"""The last of `gateway.station.migrations.versions`. Revisions are numbers, one after the other, in one line."""
ADOPTABLE: Final = range(2, 7)
"""What `station_schema` said before there were revisions: each of them lacks only tables, which revision 0001 makes."""
COUNTED_OUT: Final = 7
"""What it says since: programs that know no revisions refuse the store."""

history: Final = sa.table("station_revision", sa.column("version_num", sa.String))
"""Alembic's own table, under a name that another application in the same database does not use."""


class StoreVersion(Exception):
    """The store was made by a program that this one cannot follow; the text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a store says of itself; both None where it is empty."""

    revision: str | None
    counted: int | None
    """What `station_schema` says."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing of ours in it."""
        return self.revision is None and self.counted is None

    def __str__(self) -> str:
        if self.revision is not None:
            return f"revision {self.revision}"
        return "no tables" if self.counted is None else f"schema {self.counted}"


async def find(transaction: AsyncConnection) -> Found:
    """Ask a store what it is; raises SQLAlchemyError."""
    there = set(await transaction.run_sync(lambda connection: sa.inspect(connection).get_table_names()))
    if history.name in there:
        revision: str | None = await transaction.scalar(sa.select(history.c.version_num))
        return Found(revision=revision, counted=None)
    if schema.name in there:
        counted: int | None = await transaction.scalar(sa.select(sa.func.max(schema.c.version)))
        return Found(revision=None, counted=counted)
    return Found(revision=None, counted=None)


async def lay_out(transaction: AsyncConnection) -> None:
    """Make all tables of an empty store at once, as the revisions would, at a quarter of what they and Alembic cost.

    Raises SQLAlchemyError.
    """
    await transaction.run_sync(complete().create_all)
    # As Alembic makes it.
    name = sa.Column("version_num", sa.String(32), nullable=False)
    made = sa.Table(
        history.name, sa.MetaData(), name, sa.PrimaryKeyConstraint("version_num", name=f"{history.name}_pkc")
    )
    await transaction.run_sync(made.create)
    await transaction.execute(sa.insert(made).values(version_num=HEAD))
    await transaction.execute(sa.insert(schema).values(version=COUNTED_OUT))


def is_due(found: Found) -> bool:
    """Tell whether revisions are missing; raises StoreVersion for a store that cannot be brought to `HEAD`."""
    if found.revision is not None:
        if int(found.revision) > int(HEAD):
            raise StoreVersion(
                f"the store has revision {found.revision}, this program knows none after {HEAD}: start the version"
                " that wrote it or a later one, or restore the backup from before the upgrade"
            )
        return found.revision != HEAD
    if found.counted is not None and found.counted not in ADOPTABLE:
        raise StoreVersion(
            f"the store has schema {found.counted}, this program carries over schema {ADOPTABLE[0]} to {ADOPTABLE[-1]}:"
            " start the version that wrote it, or name another store in LAZARETTO_STORE_URL"
        )
    return True
