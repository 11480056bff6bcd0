"""The verb `migrate`: which revision the store has, and the way to this program's.

Owns its argument and what it prints. Every program migrates by itself when it opens the store; this is for those who
want to see it done, or to know before.
"""

import argparse
from typing import Final

from gateway.settings import StationSettings
from gateway.station import revisions
from gateway.station.documents import written
from gateway.station.store import Store

OK: Final = 0
BEHIND: Final = 1
"""With `--check`: the store would be changed by the next program that opens it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("--check", action="store_true", help="only tell; exit code 1 when there is something to do")


async def run(arguments: argparse.Namespace, settings: StationSettings) -> int:
    """Do what was asked for and return the exit code; raises StoreVersion for a store that cannot be used."""
    store = Store.at(settings.store)
    try:
        before = await store.found()
        due = revisions.is_due(before)
        if due and not arguments.check:
            await store.migrate()
    finally:
        await store.close()
    if arguments.json:
        print(written({"before": str(before), "revision": revisions.HEAD, "due": due}, indent=True))
    elif not due:
        print(f"the store has {before}, which is this program's")
    elif arguments.check:
        print(f"the store has {before}; `migrate`, or the next program that opens it, brings it to {revisions.HEAD}")
    else:
        print(f"the store had {before} and now has revision {revisions.HEAD}")
    return BEHIND if due and arguments.check else OK
