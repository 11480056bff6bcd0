"""The road by which a store gets the tables of this program, one revision after the other.

Owns nothing but the call of Alembic, which is loaded with this module: only who has something to migrate imports it.
All revisions that are missing are one transaction, on both stores: a process that is killed halfway leaves the store
as it was.
"""

import logging
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

SCRIPTS: Final = Path(__file__).parent


class BrokenReferences(Exception):
    """A revision left rows that refer to nothing; nothing of it was kept."""


def config(connection: sa.Connection, scripts: Path = SCRIPTS) -> Config:
    """Return what Alembic needs to work on `connection`, in the transaction that it is in."""
    made = Config()
    made.set_main_option("script_location", str(scripts).replace("%", "%%"))
    made.set_main_option("file_template", "r%%(rev)s_%%(slug)s")
    made.attributes["connection"] = connection
    return made


def upgrade(connection: sa.Connection, scripts: Path = SCRIPTS) -> None:
    """Bring the tables to the last revision within the transaction of `connection`; raises SQLAlchemyError.

    SQLite cannot change a table that others refer to while it watches over references, so whoever calls has switched
    that off, and it is made up for here.
    """
    logging.getLogger("alembic").setLevel(logging.WARNING)
    command.upgrade(config(connection, scripts), "head")
    if connection.dialect.name == "sqlite":
        broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
        if broken is not None:
            raise BrokenReferences(f"table {broken[0]}, row {broken[1]} refers to nothing in {broken[2]}")
