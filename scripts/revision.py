"""`python -m scripts.revision "Items have an owner"`: writes the store's next revision from what the tables now say.

Owns the number, and asks a fresh store of the last revision what it lacks. What it writes is a proposal: Alembic sees
tables, columns, indexes and constraints, and nothing of what becomes of the rows.
"""

import asyncio
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import sqlalchemy as sa
from alembic import command

from gateway.station import migrations, revisions
from gateway.station.store import Store

_CONSTANT: Final = re.compile(r'^HEAD: Final = "\d+"$', re.MULTILINE)


def main(argv: list[str]) -> int:
    """Write the revision that the words name, and count `HEAD` up."""
    if len(argv) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    with TemporaryDirectory() as folder:
        number = f"{int(revisions.HEAD) + 1:04}"
        print("written:", asyncio.run(_write(f"sqlite+aiosqlite:///{folder}/station.db", number, argv[0])))
    source = Path(revisions.__file__)
    source.write_text(_CONSTANT.sub(f'HEAD: Final = "{number}"', source.read_text("utf-8")), "utf-8")
    print("counted up:", source)
    return 0


async def _write(url: str, number: str, words: str) -> str:
    store = await Store.open(url)
    async with store.writing() as transaction:
        written = await transaction.run_sync(lambda connection: _propose(connection, number, words))
    await store.close()
    return written


def _propose(connection: sa.Connection, number: str, words: str) -> str:
    made = command.revision(migrations.config(connection), words.rstrip("."), autogenerate=True, rev_id=number)
    return "nothing" if made is None or isinstance(made, list) else str(made.path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
