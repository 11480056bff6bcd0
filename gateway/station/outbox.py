"""Sends the alerts that the store owes, each at least once, with a growing pause after a failure.

Owns the rows of `alerts` from their insertion on. An alert is marked after it went out, never before; a station that
dies in between says it twice.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from gateway.contract.logs import event
from gateway.station import wording
from gateway.station.channels import Channel, ChannelFailed, Notice
from gateway.station.dossier import Dossier, Item, find
from gateway.station.holding import AlertEvent
from gateway.station.store import Store
from gateway.station.tables import alerts, storable

POLL: Final = 0.5
"""Seconds between looks: reviewers decide in other processes, which cannot wake this one."""
BATCH: Final = 64
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 300.0

logger: Final = logging.getLogger("lazaretto.outbox")


class Outbox:
    """The sending side. `run` until `stop` is set."""

    def __init__(self, *, store: Store, channels: Sequence[Channel], desk: str) -> None:
        self._store = store
        self._channels = {channel.name: channel for channel in channels}
        self._desk = desk

    async def run(self, stop: asyncio.Event) -> None:
        """Send what is due, again and again; while the store cannot be used, wait for it."""
        while not stop.is_set():
            found = 0
            try:
                found = await self._round()
            except* (sa.exc.DBAPIError, OSError) as group:
                event(logger, "outbox.waits", logging.WARNING, error=group.exceptions[0])
            if found < BATCH:
                await _pause(stop, POLL)

    async def _round(self) -> int:
        now = time.time()
        query = (
            sa.select(alerts)
            .where(alerts.c.sent_at.is_(None), alerts.c.due_at <= now, alerts.c.channel.in_(list(self._channels)))
            .order_by(alerts.c.due_at)
            .limit(BATCH)
        )
        async with self._store.reading() as transaction:
            due = (await transaction.execute(query)).all()
        # Each channel at its own pace: a dead webhook must not keep the log waiting.
        by_channel: dict[str, list[Any]] = {}
        for row in due:
            by_channel.setdefault(row.channel, []).append(row)
        async with asyncio.TaskGroup() as group:
            for name, rows in by_channel.items():
                group.create_task(self._send_all(self._channels[name], rows))
        return len(due)

    async def _send_all(self, channel: Channel, rows: Sequence[Any]) -> None:
        for row in rows:
            notice = await self._notice(row.ticket, row.generation, AlertEvent(row.event))
            try:
                await channel.send(notice)
            except ChannelFailed as error:
                pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**row.tries)
                event(logger, "alert.failed", logging.WARNING, ticket=row.ticket, channel=channel.name, error=error)
                await self._mark(row.id, text=notice.text, due_at=time.time() + pause, last_error=storable(str(error)))
            else:
                await self._mark(row.id, text=notice.text, sent_at=time.time(), last_error=None)

    async def _mark(self, alert: int, **changes: object) -> None:
        async with self._store.writing() as transaction:
            await transaction.execute(
                sa.update(alerts).where(alerts.c.id == alert).values(tries=alerts.c.tries + 1, **changes)
            )

    async def _notice(self, ticket: str, generation: int, about: AlertEvent) -> Notice:
        dossier = await find(self._store, ticket)
        if dossier is None:
            raise AssertionError(f"an alert about {ticket}, of which the store knows nothing")
        item = next(item for item in dossier.items if item.generation == generation)
        return compose(dossier, item, about, f"{self._desk}/items/{ticket}")


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


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
