"""What becomes of a message that the store does not take as it is: a raw file, a record of it, a minimal row (P19).

Owns the last resort of the keeper: whatever a message holds, it ends here and not in a loop. Never judges a message by
trouble of the store's own.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.history import History
from gateway.contract.logs import event
from gateway.contract.text import clip
from gateway.contract.wire import Wire
from gateway.station import arrival as arrivals
from gateway.station import holding, proofs, standings
from gateway.station.arrival import Arrival
from gateway.station.spool import Spool
from gateway.station.storable import storable
from gateway.station.store import Store
from gateway.station.tables.items import spooled

_MAX_ERROR: Final = 2048
_OF_VALUES: Final = ("22", "54")
"""PostgreSQL's classes of codes for a value that is none, and for more than it can hold in one place."""

logger: Final = logging.getLogger("lazaretto.keeper")


def is_of_the_message(error: Exception) -> bool:
    """Tell what a message made go wrong from what is wrong with the store; a bare StatementError is a value's fault.

    The driver of PostgreSQL has no class of its own for most of them, only the server's code.
    """
    match error:
        case sa.exc.DBAPIError():
            is_named = isinstance(error, sa.exc.DataError | sa.exc.IntegrityError | sa.exc.ProgrammingError)
            return is_named or (getattr(error.orig, "sqlstate", None) or "").startswith(_OF_VALUES)
        case sa.exc.SQLAlchemyError():
            return isinstance(error, sa.exc.StatementError)
        case OSError():
            return False
        case _:
            return True


class Salvage:
    """Keeps what is left to keep; raises only for trouble of store and disk."""

    def __init__(self, *, store: Store, spool: Spool, channels: Sequence[str]) -> None:
        self._store = store
        self._spool = spool
        self._channels = channels

    async def write_raw(self, transaction: AsyncConnection, wire: Wire, *, source: str, error: Exception) -> str:
        """Write a raw file, put it on record in `transaction`, and return its path."""
        said = clip(repr(error), _MAX_ERROR)
        path = str(await asyncio.to_thread(self._spool.keep, wire, source=source, error=said))
        event(logger, "message.spooled", logging.ERROR, queue=source, path=path, error=error)
        row = {"path": path, "at": time.time(), "source": source, "error": storable(said)}
        statement = standings.insert(transaction.dialect.name, spooled).on_conflict_do_nothing()
        await transaction.execute(statement, [row])
        return path

    async def keep(self, wire: Wire, *, source: str, error: Exception, is_item: bool) -> None:
        """Keep the raw file and, of an item, as much of a row as the store takes, so that people are told."""
        async with self._store.writing() as transaction:
            path = await self.write_raw(transaction, wire, source=source, error=error)
        if not is_item:
            return
        for found in _minimal(wire, error):
            try:
                async with self._store.writing() as transaction:
                    await holding.take_in(transaction, found, channels=self._channels, now=time.time(), spool_path=path)
                    await proofs.settle(transaction, [(found.ticket, found.generation)])
                return
            except Exception as worse:
                if not is_of_the_message(worse):
                    raise
                # The file is safe and on record; a message that allows no row must not come back for ever.
                event(logger, "message.rowless", logging.CRITICAL, path=path, error=worse)


def _minimal(wire: Wire, error: Exception) -> list[Arrival]:
    """Return what any store can hold of an arrival, then what it can hold of any bytes; the message is in the spool."""
    nameless = _bare(arrivals.unreadable(wire, error), error)
    try:
        return [_bare(arrivals.read(wire), error), nameless]
    except Exception:  # noqa: BLE001 - whatever reading it does, the message has to end here
        return [nameless]


def _bare(found: Arrival, error: Exception) -> Arrival:
    return replace(
        found,
        detail=clip(f"kept as a raw file, because it could not be stored: {error!r}", arrivals.MAX_DETAIL),
        history=History(),
        admission=None,
        wire=Wire(body=b"", message_id=None),
    )
