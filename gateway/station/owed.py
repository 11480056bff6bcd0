"""What the outbox owes: rows of `alerts` about items and of `notices` about everything else, read and marked.

Owns the questions, and the marks of what was sent. Sends nothing.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.station import tallying
from gateway.station.holding import AlertEvent, ItemState
from gateway.station.rollup import ROLLED, Mention
from gateway.station.store import Store
from gateway.station.tables.alerts import alerts, notices
from gateway.station.tables.items import items

MOST_TOGETHER: Final = 10_000
_CHUNK: Final = 500
"""Ids in one statement; SQLite takes only so many values at once."""
_KNOWN: Final = frozenset(AlertEvent)
_WAITING: Final = frozenset({ItemState.HELD, ItemState.REPLAYING})


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
    def is_known(self) -> bool:
        """Tell whether this version knows what it tells."""
        return self.row.event in _KNOWN

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
    undone: Sequence[Owed]
    """Ends of items that wait for a decision again: of these nothing is to be told."""


def is_undone(event: AlertEvent, state: ItemState) -> bool:
    """Tell whether an alert is about the end of an item that waits for a decision again."""
    return event is AlertEvent.RESOLVED and state in _WAITING


async def due(store: Store, channel: str, most: int) -> list[Owed]:
    """Return what may be sent through a channel now, at most so many of each table.

    That an item is decided waits for what told of the item: nobody is to hear of them the other way round.
    """
    # What is told by itself goes first: many that wait to be told together must not hide it.
    last = sa.case((notices.c.event.in_(ROLLED), 1), else_=0)
    first = sa.select(alerts).where(_due(alerts, channel), _is_in_order()).order_by(alerts.c.due_at, alerts.c.id)
    then = sa.select(notices).where(_due(notices, channel)).order_by(last, notices.c.due_at, notices.c.id)
    async with store.reading() as transaction:
        found = [Owed(alerts, row) for row in (await transaction.execute(first.limit(most))).all()]
        return found + [Owed(notices, row) for row in (await transaction.execute(then.limit(most))).all()]


async def bundle(store: Store, channel: str) -> Bundle:
    """Return all that may be told together through a channel now, under the same rules as what is told singly."""
    rolled = sa.select(alerts, items.c.kind, items.c.reason, items.c.state).select_from(alerts.join(items))
    of_items = rolled.where(_due(alerts, channel), alerts.c.event.in_(ROLLED), _is_in_order())
    of_suspects = sa.select(notices.c.id, notices.c.event, notices.c.subject).where(
        _due(notices, channel), notices.c.event.in_(ROLLED)
    )
    async with store.reading() as transaction:
        found = (await transaction.execute(of_items.order_by(alerts.c.id).limit(MOST_TOGETHER))).all()
        suspected = (await transaction.execute(of_suspects.order_by(notices.c.id).limit(MOST_TOGETHER))).all()
    undone = [row for row in found if is_undone(AlertEvent(row.event), ItemState(row.state))]
    told = [row for row in found if not is_undone(AlertEvent(row.event), ItemState(row.state))]
    mentions = [
        Mention(event=AlertEvent(row.event), ticket=row.ticket, kind=row.kind, reason=row.reason) for row in told
    ]
    mentions += [Mention(event=AlertEvent(row.event), ticket=row.subject) for row in suspected]
    ids = {alerts.name: [row.id for row in told], notices.name: [row.id for row in suspected]}
    return Bundle(mentions=mentions, ids=ids, undone=[Owed(alerts, row) for row in undone])


async def mark_each(transaction: AsyncConnection, ended: Sequence[tuple[Owed, Mapping[str, Any]]]) -> None:
    """Write down and count what became of each of these tries, whatever became of the others."""
    alike = defaultdict[tuple[str, ...], list[dict[str, Any]]](list)
    # In one order, or two stations that share a store may each wait for a row that the other has.
    for one, changes in sorted(ended, key=lambda pair: pair[0].id):
        alike[one.table.name, *changes].append({"its_id": one.row.id, **changes})
    for (name, *changed), rows in alike.items():
        table = next(table for table in (alerts, notices) if table.name == name)
        values: dict[str, Any] = {column: sa.bindparam(column) for column in changed}
        marking = sa.update(table).where(table.c.id == sa.bindparam("its_id"))
        await transaction.execute(marking.values(tries=table.c.tries + 1, **values), rows)
    for figure, is_sent in ((tallying.SENT, True), (tallying.FAILED, False)):
        told = Counter(str(one.row.channel) for one, changes in ended if ("sent_at" in changes) is is_sent)
        await tallying.add(transaction, figure, told)


async def decided_anew(transaction: AsyncConnection, told: Mapping[int, tuple[str, int, float]]) -> list[int]:
    """Return which alerts (id: ticket, generation, moment of the decision that was told) somebody has overtaken.

    The items are locked, as by whoever decides about them: one of both sees what the other has done.
    """
    if not told:
        return []
    keys = sa.tuple_(items.c.ticket, items.c.generation)
    query = sa.select(items.c.ticket, items.c.generation, items.c.decided_at)
    asked = query.where(keys.in_({key[:2] for key in told.values()})).order_by(items.c.ticket, items.c.generation)
    rows = (await transaction.execute(asked.with_for_update())).all()
    last = {(row.ticket, row.generation): row.decided_at for row in rows}
    return [its for its, (ticket, generation, at) in told.items() if last.get((ticket, generation)) not in (None, at)]


async def owe_again(transaction: AsyncConnection, ids: Sequence[int]) -> None:
    """Owe alerts once more that have just gone out."""
    now, again = time.time(), sa.update(alerts).where(alerts.c.id.in_(ids))
    await transaction.execute(again.values(sent_at=None, created_at=now, due_at=now))


async def mark(
    transaction: AsyncConnection, channel: str, ids: Mapping[str, Sequence[int]], changes: Mapping[str, Any]
) -> None:
    """Write down and count what became of one try to send these rows, all of one channel."""
    for table in (alerts, notices):
        given = ids.get(table.name, ())
        for begin in range(0, len(given), _CHUNK):
            these = table.c.id.in_(given[begin : begin + _CHUNK])
            await transaction.execute(sa.update(table).where(these).values(tries=table.c.tries + 1, **changes))
    figure = tallying.SENT if "sent_at" in changes else tallying.FAILED
    await tallying.add(transaction, figure, {channel: sum(map(len, ids.values()))})


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


def _is_in_order() -> sa.ColumnElement[bool]:
    """Not the end of an item of which its channel has not been told yet."""
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
    return sa.not_(held_up)
