"""What of all that was told through a channel still lasts, and since when the rest is over; questions only.

Owns what "over" means for each event: an item is decided, a suspect has ended or is in quarantine, a storm is lifted,
a surge is two windows old, a mismatch is a day old.
"""

import time
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.outcomes import TicketState
from gateway.station import announcing
from gateway.station.callbacks import ENDS
from gateway.station.channels import Notice
from gateway.station.holding import AlertEvent, ItemState
from gateway.station.store import Store
from gateway.station.tables.alerts import alerts, notices
from gateway.station.tables.items import items
from gateway.station.tables.tickets import tickets

_LOOK_BACK: Final = 7 * 86_400.0
"""Seconds; no suspect is under way for longer, whatever becomes of its reports."""
_LASTING: Final = (
    AlertEvent.SUSPECT,
    AlertEvent.REVIEW_OVERDUE,
    AlertEvent.STORM,
    AlertEvent.REFUSALS_SURGED,
    AlertEvent.MISMATCH,
)
_ENDS: Final[Mapping[AlertEvent, Collection[TicketState]]] = {
    AlertEvent.SUSPECT: ENDS,
    AlertEvent.REVIEW_OVERDUE: ENDS - {TicketState.QUARANTINED},
}
"""In which states of its ticket what is told of a ticket is over."""
_CHUNK: Final = 500


async def waiting_items(store: Store, channel: str, desk: str, page: int) -> AsyncIterator[list[Notice]]:
    """Yield what the channel was told of items that wait for a decision, at most `page` at a time."""
    for state in (ItemState.HELD, ItemState.REPLAYING):
        after: tuple[float, str] = (0.0, "")
        while rows := await _page(store, channel, state, after, page):
            yield [announcing.of_waiting(row, desk) for row in rows]
            after = (rows[-1].arrived_at, rows[-1].ticket)


async def warnings(store: Store, channel: str, desk: str, since: float) -> list[Notice]:
    """Return what the channel was told of no item and lasts, or was over after `since` (Unix seconds)."""
    query = sa.select(notices).where(
        notices.c.channel == channel,
        notices.c.sent_at.is_not(None),
        notices.c.event.in_([about.value for about in _LASTING]),
        sa.or_(notices.c.event == AlertEvent.STORM.value, notices.c.created_at > time.time() - _LOOK_BACK),
    )
    async with store.reading() as transaction:
        rows = (await transaction.execute(query)).all()
    known = await as_they_stand(store, [announcing.of_no_item(row, desk) for row in rows])
    return [notice for notice in known if notice.over_at is None or notice.over_at > since]


async def as_they_stand(store: Store, told: Sequence[Notice]) -> list[Notice]:
    """Return these with the end of those that are over by now, in whatever order the reports came."""
    storms = {notice.key for notice in told if notice.event is AlertEvent.STORM}
    of_tickets = {str(notice.fields["ticket"]) for notice in told if notice.event in _ENDS}
    async with store.reading() as transaction:
        ends = await _lifted(transaction) if storms else {}
        standings = await _standings(transaction, of_tickets)
    found = []
    for notice in told:
        over_at = notice.over_at
        if notice.event is AlertEvent.STORM:
            over_at = ends.get(notice.key)
        elif notice.event in _ENDS:
            standing = standings.get(str(notice.fields["ticket"]))
            generation = int(notice.fields["generation"])
            over_at = None if standing is None else _end(standing, generation, _ENDS[notice.event])
        found.append(replace(notice, over_at=over_at))
    return found


async def _page(store: Store, channel: str, state: ItemState, after: tuple[float, str], most: int) -> Sequence[Any]:
    told = sa.and_(
        alerts.c.ticket == items.c.ticket,
        alerts.c.generation == items.c.generation,
        alerts.c.event == AlertEvent.QUARANTINED.value,
        alerts.c.channel == channel,
        alerts.c.sent_at.is_not(None),
    )
    columns = [items.c[name] for name in ("ticket", "generation", "kind", "reason", "attempts", "arrived_at")]
    query = (
        sa.select(*columns, alerts.c.text)
        .select_from(items.join(alerts, told))
        .where(items.c.state == state.value, sa.tuple_(items.c.arrived_at, items.c.ticket) > sa.tuple_(*after))
        .order_by(items.c.arrived_at, items.c.ticket)
        .limit(most)
    )
    async with store.reading() as transaction:
        return (await transaction.execute(query)).all()


async def _lifted(transaction: AsyncConnection) -> dict[str, float]:
    """Return when each storm that is over was, by its key."""
    query = sa.select(notices).where(notices.c.event == AlertEvent.STORM_LIFTED.value)
    rows = (await transaction.execute(query)).all()
    return {announcing.storm_key(row.subject, row.window): row.created_at for row in rows}


async def _standings(transaction: AsyncConnection, wanted: Iterable[str]) -> dict[str, Any]:
    names = sorted(wanted)
    found: dict[str, Any] = {}
    for begin in range(0, len(names), _CHUNK):
        query = sa.select(tickets).where(tickets.c.ticket.in_(names[begin : begin + _CHUNK]))
        found |= {row.ticket: row for row in await transaction.execute(query)}
    return found


def _end(standing: Any, generation: int, ends: Collection[TicketState]) -> float | None:
    is_over = standing.generation > generation or TicketState(standing.state) in ends
    end: float | None = standing.updated_at if is_over else None
    return end
