"""Replays that were in doubt, settled by what is reported of the next generation.

Owns the moment at which "sent, unconfirmed" becomes "replayed" without a person: a generation that somebody reports of
was with the broker.
"""

import logging
import time
from collections.abc import Iterable
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.logs import event
from gateway.station import replays
from gateway.station.holding import ItemState
from gateway.station.tables.items import items
from gateway.station.tables.tickets import tickets

logger: Final = logging.getLogger("lazaretto.proofs")


async def settle(transaction: AsyncConnection, reported: Iterable[tuple[str, int]]) -> None:
    """Conclude the replays that these reports (ticket, generation) prove to have arrived; in the keeper's transaction.

    Most reports are of generation 0, which nobody's replay has begun: those cost nothing.
    """
    newest: dict[str, int] = {}
    for ticket, generation in reported:
        if generation > 0:
            newest[ticket] = max(generation, newest.get(ticket, 0))
    if not newest:
        return
    # Tickets before items, as every decision does: two transactions in opposite order would wait for each other.
    of_tickets = sa.select(tickets.c.ticket).where(tickets.c.ticket.in_(newest)).order_by(tickets.c.ticket)
    await transaction.execute(of_tickets.with_for_update())
    query = (
        sa.select(items.c.ticket, items.c.generation, items.c.kind, items.c.attempts)
        .where(items.c.ticket.in_(newest), items.c.state == ItemState.REPLAYING.value)
        .order_by(items.c.ticket, items.c.generation)
    )
    for row in (await transaction.execute(query.with_for_update())).all():
        if newest[row.ticket] > row.generation:
            await replays.conclude(transaction, row, time.time())
            event(logger, "replay.proven", ticket=row.ticket, generation=row.generation + 1)
