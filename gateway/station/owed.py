"""What the outbox owes: rows of `alerts` about items and of `notices` about everything else, read and marked.

Owns the questions, and the marks of what was sent. Sends nothing.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.station.holding import AlertEvent
from gateway.station.rollup import ROLLED, Mention
from gateway.station.store import Store
from gateway.station.tables.alerts import alerts, notices
from gateway.station.tables.items import items

MOST_TOGETHER: Final = 10_000
_CHUNK: Final = 500
"""Ids in one statement; SQLite takes only so many values at once."""


@dataclass(frozen=True, slots=True)
class Owed:
    """One row of `alerts` or of `notices`."""

    table: sa.Table
    row: Any

    @property
    def id(self) -> tuple[str, int]:
        """What tells it from every other row."""
        return self.table.name, self.row.id

    @property
    def is_of_an_item(self) -> bool:
        """Tell whether it is about an item that is or was in quarantine."""
        return self.table is alerts

    @property
    def about(self) -> str:
        """Its ticket, or what else it is about."""
        return str(self.row.ticket if self.is_of_an_item else self.row.subject)

    @property
    def event(self) -> AlertEvent:
        """What it tells; raises ValueError for a word of a later version."""
        return AlertEvent(self.row.event)

    @property
    def may_be_rolled(self) -> bool:
        """Tell whether it can be told together with others."""
        return self.row.event in ROLLED


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What is told in one message."""

    mentions: Sequence[Mention]
    ids: Mapping[str, Sequence[int]]
    """By table."""


async def due(store: Store, channel: str, most: int) -> list[Owed]:
    """Return what may be sent through a channel now, at most so many of each table.

    That an item is decided waits for what told of the item: nobody is to hear of them the other way round.
    """
    opening = alerts.alias()
    held_up = sa.and_(
        alerts.c.event == AlertEvent.RESOLVED.value,
        sa.select(opening.c.id)
        .where(
            opening.c.ticket == alerts.c.ticket,
            opening.c.generation == alerts.c.generation,
            opening.c.event == AlertEvent.QUARANTINED.value,
            opening.c.channel == alerts.c.channel,
            opening.c.sent_at.is_(None),
        )
        .exists(),
    )
    # What is told by itself goes first: many that wait to be told together must not hide it.
    last = sa.case((notices.c.event.in_(ROLLED), 1), else_=0)
    first = sa.select(alerts).where(_due(alerts, channel), sa.not_(held_up)).order_by(alerts.c.due_at, alerts.c.id)
    then = sa.select(notices).where(_due(notices, channel)).order_by(last, notices.c.due_at, notices.c.id)
    async with store.reading() as transaction:
        found = [Owed(alerts, row) for row in (await transaction.execute(first.limit(most))).all()]
        return found + [Owed(notices, row) for row in (await transaction.execute(then.limit(most))).all()]


async def bundle(store: Store, channel: str) -> Bundle:
    """Return all that may be told together through a channel now."""
    joined = alerts.join(items)
    columns = (alerts.c.id, alerts.c.event, items.c.ticket, items.c.kind, items.c.reason)
    of_items = sa.select(*columns).select_from(joined).where(_due(alerts, channel), alerts.c.event.in_(ROLLED))
    of_suspects = sa.select(notices.c.id, notices.c.event, notices.c.subject).where(
        _due(notices, channel), notices.c.event.in_(ROLLED)
    )
    async with store.reading() as transaction:
        told = (await transaction.execute(of_items.order_by(alerts.c.id).limit(MOST_TOGETHER))).all()
        suspected = (await transaction.execute(of_suspects.order_by(notices.c.id).limit(MOST_TOGETHER))).all()
    mentions = [
        Mention(event=AlertEvent(row.event), ticket=row.ticket, kind=row.kind, reason=row.reason) for row in told
    ]
    mentions += [Mention(event=AlertEvent(row.event), ticket=row.subject) for row in suspected]
    ids = {alerts.name: [row.id for row in told], notices.name: [row.id for row in suspected]}
    return Bundle(mentions=mentions, ids=ids)


async def mark(transaction: AsyncConnection, ids: Mapping[str, Sequence[int]], changes: Mapping[str, Any]) -> None:
    """Write down what became of one try to send these rows."""
    for table in (alerts, notices):
        given = ids.get(table.name, ())
        for begin in range(0, len(given), _CHUNK):
            these = table.c.id.in_(given[begin : begin + _CHUNK])
            await transaction.execute(sa.update(table).where(these).values(tries=table.c.tries + 1, **changes))


async def retire(store: Store, channels: Collection[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Owe nothing more to channels that are configured no more, and again what is owed to those that are back.

    Returns how many of each channel were retired, and how many are owed again.
    """
    retired: dict[str, int] = {}
    returned: dict[str, int] = {}
    for table in (alerts, notices):
        configured = table.c.channel.in_(channels)
        unsent = table.c.sent_at.is_(None)
        gone = sa.and_(unsent, table.c.retired_at.is_(None), sa.not_(configured))
        back = sa.and_(unsent, table.c.retired_at.is_not(None), configured)
        query = sa.select(table.c.channel, sa.func.count()).group_by(table.c.channel)
        for which, counted, moment in ((gone, retired, time.time()), (back, returned, None)):
            async with store.reading() as transaction:
                found = (await transaction.execute(query.where(which))).all()
            if found:
                async with store.writing() as transaction:
                    await transaction.execute(sa.update(table).where(which).values(retired_at=moment))
            for channel, number in found:
                counted[channel] = counted.get(channel, 0) + number
    return retired, returned


def _due(table: sa.Table, channel: str) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.sent_at.is_(None), table.c.due_at <= time.time(), table.c.channel == channel)
