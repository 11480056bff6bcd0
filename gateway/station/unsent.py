"""What is owed to each channel by now, and why it is not out yet; questions only.

Owns this count. Sends and marks nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from gateway.station.store import Store
from gateway.station.tables.alerts import alerts, notices


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """What one channel is owed, about items and everything else."""

    channel: str
    number: int
    since: float
    """When the oldest of it was owed (Unix seconds)."""
    tries: int
    """How often the one was tried that was tried most."""
    last_error: str | None
    """Of that one; None where nothing failed."""


async def find(store: Store) -> Sequence[Unsent]:
    """Return the channels that are owed something, by name; what was retired is not owed."""
    names = ("channel", "created_at", "tries", "last_error")
    owed = sa.union_all(
        *(
            sa.select(*(table.c[name] for name in names)).where(table.c.sent_at.is_(None), table.c.retired_at.is_(None))
            for table in (alerts, notices)
        )
    ).subquery()
    counts = (sa.func.count().label("number"), sa.func.min(owed.c.created_at).label("since"))
    counting = sa.select(owed.c.channel, *counts).group_by(owed.c.channel).order_by(owed.c.channel)
    worst = sa.select(owed.c.tries, owed.c.last_error).order_by(owed.c.tries.desc(), owed.c.created_at).limit(1)
    found = []
    async with store.reading() as transaction:
        for row in (await transaction.execute(counting)).all():
            tried = (await transaction.execute(worst.where(owed.c.channel == row.channel))).one_or_none()
            found.append(
                Unsent(
                    channel=row.channel,
                    number=row.number,
                    since=row.since,
                    tries=tried.tries if tried is not None else 0,
                    last_error=tried.last_error if tried is not None else None,
                )
            )
    return found
