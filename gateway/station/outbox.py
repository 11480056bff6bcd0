"""Sends the alerts that the store owes, each at least once, with a growing pause after a failure.

Owns the rows of `alerts` and `notices` from their insertion on. An alert is marked after it went out, never before; a
station that dies in between says it twice. No channel waits for another one, and no alert can end the sending of
others.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from gateway.contract.logs import event
from gateway.station import wording
from gateway.station.channels import Channel, Notice
from gateway.station.dossier import Dossier, Item, find
from gateway.station.holding import AlertEvent
from gateway.station.pauses import pause
from gateway.station.storable import parsed, storable
from gateway.station.store import Store
from gateway.station.tables.alerts import alerts, notices

POLL: Final = 0.5
"""Seconds between looks: reviewers decide in other processes, which cannot wake this one."""
BATCH: Final = 64
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 300.0
_LONGEST_REST: Final = 30.0
_MOST_DOUBLINGS: Final = 16
_STORE_TROUBLE: Final = (sa.exc.SQLAlchemyError, OSError)

logger: Final = logging.getLogger("lazaretto.outbox")


@dataclass(frozen=True, slots=True)
class _Owed:
    """One row of `alerts` or of `notices`."""

    table: sa.Table
    row: Any


_Ended = dict[tuple[str, int], dict[str, Any]]


class Outbox:
    """The sending side. `run` until `stop` is set."""

    def __init__(self, *, store: Store, channels: Sequence[Channel], desk: str) -> None:
        self._store = store
        self._channels = channels
        self._desk = desk

    async def run(self, stop: asyncio.Event) -> None:
        """Send what is due, again and again; while the store cannot be used, wait for it."""
        while not stop.is_set():
            try:
                await self._retire()
                break
            except _STORE_TROUBLE as error:
                event(logger, "outbox.waits", logging.WARNING, error=error)
                await pause(stop, _FIRST_PAUSE)
        async with asyncio.TaskGroup() as group:
            for channel in self._channels:
                group.create_task(self._serve(channel, stop))

    async def _retire(self) -> None:
        """Owe nothing more to channels that are configured no more, and again what is owed to those that are back."""
        configured = alerts.c.channel.in_([channel.name for channel in self._channels])
        unsent = alerts.c.sent_at.is_(None)
        gone = sa.and_(unsent, alerts.c.retired_at.is_(None), sa.not_(configured))
        back = sa.and_(unsent, alerts.c.retired_at.is_not(None), configured)
        query = sa.select(alerts.c.channel, sa.func.count()).group_by(alerts.c.channel)
        async with self._store.reading() as transaction:
            retired = (await transaction.execute(query.where(gone))).all()
            returned = (await transaction.execute(query.where(back))).all()
        if retired or returned:
            async with self._store.writing() as transaction:
                await transaction.execute(sa.update(alerts).where(gone).values(retired_at=time.time()))
                await transaction.execute(sa.update(alerts).where(back).values(retired_at=None))
        for channel, number in retired:
            event(logger, "alerts.retired", logging.WARNING, channel=channel, alerts=number)
        for channel, number in returned:
            event(logger, "alerts.owed_again", channel=channel, alerts=number)

    async def _serve(self, channel: Channel, stop: asyncio.Event) -> None:
        """Send one channel's alerts at its own pace: a dead or slow one must not keep any other waiting."""
        ended: _Ended = {}
        failures = 0
        while not stop.is_set():
            due: Sequence[_Owed] = ()
            try:
                due = await self._due(channel)
                for owed in due:
                    sent = await self._settle(channel, owed, ended)
                    failures = 0 if sent else failures + 1
                    if failures or stop.is_set():
                        break
            except _STORE_TROUBLE as error:
                event(logger, "outbox.waits", logging.WARNING, channel=channel.name, error=error)
            if failures:
                await pause(stop, min(_LONGEST_REST, _doubled(failures - 1)))
            elif len(due) < BATCH:
                await pause(stop, POLL)

    async def _due(self, channel: Channel) -> Sequence[_Owed]:
        found: list[_Owed] = []
        async with self._store.reading() as transaction:
            for table in (alerts, notices):
                query = (
                    sa.select(table)
                    .where(table.c.sent_at.is_(None), table.c.due_at <= time.time(), table.c.channel == channel.name)
                    .order_by(table.c.due_at)
                    .limit(BATCH)
                )
                found += [_Owed(table, row) for row in (await transaction.execute(query)).all()]
        return found

    async def _settle(self, channel: Channel, owed: _Owed, ended: _Ended) -> bool:
        """Send one alert and mark it; `ended` keeps what the store could not be told yet, so that it is said once."""
        key = (owed.table.name, owed.row.id)
        if key not in ended:
            ended[key] = await self._attempt(channel, owed)
        changes = ended[key]
        async with self._store.writing() as transaction:
            table = owed.table
            await transaction.execute(
                sa.update(table).where(table.c.id == owed.row.id).values(tries=table.c.tries + 1, **changes)
            )
        del ended[key]
        return "sent_at" in changes

    async def _attempt(self, channel: Channel, owed: _Owed) -> dict[str, Any]:
        row = owed.row
        text = row.text
        try:
            notice = await self._notice(row) if owed.table is alerts else _of_no_item(row)
            text = notice.text
            await channel.send(notice)
        except sa.exc.SQLAlchemyError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever one alert makes go wrong, the others are sent
            about = row.ticket if owed.table is alerts else row.subject
            event(logger, "alert.failed", logging.WARNING, about=about, channel=channel.name, error=error)
            due_at = time.time() + min(_LONGEST_PAUSE, _doubled(row.tries))
            return {"text": text, "due_at": due_at, "last_error": storable(str(error))}
        return {"text": text, "sent_at": time.time(), "last_error": None}

    async def _notice(self, row: Any) -> Notice:
        dossier = await find(self._store, row.ticket)
        items = dossier.items if dossier is not None else ()
        item = next((item for item in items if item.generation == row.generation), None)
        if dossier is None or item is None:
            raise LookupError(f"an alert about {row.ticket}, generation {row.generation}, which is not held")
        return compose(dossier, item, AlertEvent(row.event), f"{self._desk}/items/{row.ticket}")


def _of_no_item(row: Any) -> Notice:
    return Notice(event=AlertEvent(row.event), title=row.title, text=row.text, fields=parsed(row.fields))


def compose(dossier: Dossier, item: Item, about: AlertEvent, link: str) -> Notice:
    """Word one alert, with the evidence that is known by now."""
    of_generation = [run for run in dossier.runs if run.generation == item.generation]
    fields: dict[str, Any] = {
        "ticket": item.ticket,
        "kind": item.kind,
        "generation": item.generation,
        "attempts": item.attempts,
        "reason": item.reason,
    }
    if about is AlertEvent.QUARANTINED:
        fields["evidence"] = wording.sentence(of_generation[-1]) if of_generation else "never started"
        text = wording.quarantined(item, dossier.runs, link)
    else:
        fields |= {"decision": item.state.value, "by": item.decided_by, "because": item.decision_reason}
        text = wording.resolved(item, link)
    return Notice(event=about, title=wording.title(item), text=text, fields={**fields, "link": link})


def _doubled(times: int) -> float:
    # A power without a bound ends in an OverflowError once an alert has failed a thousand times.
    return _FIRST_PAUSE * float(2 ** min(times, _MOST_DOUBLINGS))
