"""An item's headers as they came, put for eyes.

Owns one question to the store. What a replay sends are the frozen properties, never this.
"""

from typing import Any

import sqlalchemy as sa

from gateway.station.storable import parsed
from gateway.station.store import Store
from gateway.station.tables.items import items


async def find(store: Store, ticket: str, generation: int) -> dict[str, Any]:
    """Return the header table of one generation's message; empty when it is not here."""
    query = sa.select(items.c.headers).filter_by(ticket=ticket, generation=generation)
    async with store.reading() as transaction:
        found = await transaction.scalar(query)
    return parsed(found) or {}
