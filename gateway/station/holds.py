"""Whether a ticket is on hold, for those who are about to decide about it; questions only.

A hold is about a ticket id, whatever generation of it is here, and whether any is: what comes later is on hold when it
arrives. It does not reach into the fleet: what runs goes on, within its budget.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.station import wording
from gateway.station.decided import Bar, Barred
from gateway.station.tables.reviews import holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Why nobody may decide about a ticket for now."""

    by: str
    reason: str
    since: float
    """Unix seconds."""

    @property
    def sentence(self) -> str:
        """Who has it wait, since when and why."""
        return (
            f"it is on hold since {wording.clock(self.since)} by {self.by}, because: {self.reason}; `release` ends that"
        )

    @property
    def bar(self) -> Barred:
        """The answer to whoever wants to decide."""
        return Barred(bar=Bar.ON_HOLD, why=self.sentence)


async def find(transaction: AsyncConnection, ticket: str) -> Hold | None:
    """Return why a ticket must wait, or None."""
    return (await find_each(transaction, [ticket])).get(ticket)


async def find_each(transaction: AsyncConnection, tickets: Sequence[str]) -> dict[str, Hold]:
    """Return why these tickets must wait, those that must."""
    rows = (await transaction.execute(sa.select(holds).where(holds.c.ticket.in_(tickets)))).all()
    return {row.ticket: Hold(by=row.by, reason=row.reason, since=row.since) for row in rows}
