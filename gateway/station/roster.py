"""Keeps the table `duties` as the policy file says: at the start, and again at each hang-up.

Owns that table. A file with a mistake leaves everything as it was, and every mistake is told; of other settings that
have changed nothing is taken over, since they need a restart.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Final

import sqlalchemy as sa

from gateway.contract.logs import event
from gateway.station.duties import Duty
from gateway.station.pauses import pause
from gateway.station.store import Store
from gateway.station.tables.reviews import duties

_AGAIN: Final = 2.0

logger: Final = logging.getLogger("lazaretto.roster")

Read = Callable[[], Mapping[str, Duty]]


class Roster:
    """The writing side. `run` until `stop` is set."""

    def __init__(self, store: Store, read: Read) -> None:
        """`read` returns the duty of every kind, or raises ValueError with a line for each mistake."""
        self._store = store
        self._read = read
        self._due = asyncio.Event()
        self._due.set()

    def hang_up(self) -> None:
        """Read the file again soon."""
        self._due.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Write down what the file says, whenever that is asked for; while the store cannot be used, wait for it."""
        ended = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                asked = asyncio.create_task(self._due.wait())
                await asyncio.wait((asked, ended), return_when=asyncio.FIRST_COMPLETED)
                asked.cancel()
                if stop.is_set():
                    return
                self._due.clear()
                try:
                    await self._write()
                except (sa.exc.SQLAlchemyError, OSError) as error:
                    event(logger, "duties.wait", logging.WARNING, error=error)
                    await pause(stop, _AGAIN)
                    self._due.set()
        finally:
            ended.cancel()

    async def _write(self) -> None:
        try:
            found = self._read()
        except ValueError as error:
            for mistake in getattr(error, "problems", None) or str(error).splitlines():
                event(logger, "duties.refused", logging.ERROR, mistake=mistake)
            return
        changed = await write(self._store, found)
        event(logger, "duties.known", kinds=len(found), changed=changed)


async def write(store: Store, found: Mapping[str, Duty]) -> bool:
    """Let the table say this and nothing else; tell whether it said something else before."""
    query = sa.select(duties)
    async with store.reading() as transaction:
        rows = (await transaction.execute(query)).all()
    before = {row.kind: Duty(owner=row.owner, review_within=row.review_within) for row in rows}
    if before == dict(found):
        return False
    async with store.writing() as transaction:
        await transaction.execute(sa.delete(duties))
        await transaction.execute(sa.insert(duties), [{"kind": kind, **asdict(duty)} for kind, duty in found.items()])
    return True
