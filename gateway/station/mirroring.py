"""Keeps a mirror, such as an Alertmanager, in step: tells it what is new, and again what lasts before it expires there.

Owns when a mirror is told, and the marks of what it was told. What lasts is asked of the store each time, so that
whatever was missed, told twice, or forgotten by a mirror that began anew is put right by the next round.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from gateway.contract.logs import event
from gateway.station import announcing, lasting, owed
from gateway.station.channels import AlertRefused, ChannelFailed, Mirror, Notice
from gateway.station.owed import Owed
from gateway.station.pauses import pause
from gateway.station.storable import storable
from gateway.station.store import Store

POLL: Final = 0.5
TOGETHER: Final = 500
"""Alerts in one request."""
ROUNDS: Final = 15
"""How often what lasts is told before it would expire: a mirror that began anew hears of it soon, and a station that is
away for a moment resolves nothing."""
_LONGEST_REST: Final = 30.0
_MOST_DOUBLINGS: Final = 5
_REFUSED_AGAIN_AFTER: Final = 300.0
_STORE_TROUBLE: Final = (sa.exc.SQLAlchemyError, OSError)

logger: Final = logging.getLogger("lazaretto.outbox")


class Mirroring:
    """Serves one mirror. `run` until `stop` is set."""

    def __init__(self, *, store: Store, mirror: Mirror, desk: str) -> None:
        self._store = store
        self._mirror = mirror
        self._desk = desk
        self._again_at = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Tell what is due, and in time what lasts; while it does not answer, ask less and less often."""
        failures = 0
        while not stop.is_set():
            news = 0
            try:
                news = await self._tell_news()
                await self._tell_what_lasts()
                failures = 0
            except ChannelFailed as error:
                failures += 1
                event(logger, "alert.failed", logging.WARNING, channel=self._mirror.name, error=error)
            except _STORE_TROUBLE as error:
                event(logger, "outbox.waits", logging.WARNING, channel=self._mirror.name, error=error)
            except Exception as error:  # noqa: BLE001 - whatever one alert makes go wrong, other channels are told
                failures += 1
                event(logger, "alert.failed", logging.ERROR, channel=self._mirror.name, error=repr(error))
            if failures:
                await pause(stop, min(_LONGEST_REST, 2.0 ** min(failures - 1, _MOST_DOUBLINGS)))
            elif news < TOGETHER:
                await pause(stop, POLL)

    async def _tell_news(self) -> int:
        """Tell what the outbox owes; one request for all of it. A failure is the mirror's, so that none is put off."""
        found = await owed.due(self._store, self._mirror.name, TOGETHER)
        rows: list[Owed] = []
        worded: list[Notice] = []
        for one, notice in zip(
            found, await announcing.worded(self._store, found, self._mirror.name, self._desk), strict=True
        ):
            if isinstance(notice, Exception):  # one that cannot be worded keeps no other from being told
                await self._put_off(one, notice)
            elif isinstance(notice, str):
                await self._mark([one], [{"text": notice, **_sent()}])
            else:
                rows.append(one)
                worded.append(notice)
        if not rows:
            return len(found)
        news = await lasting.as_they_stand(self._store, worded)
        try:
            await self._mirror.show(news)
        except AlertRefused:
            for one, notice in zip(rows, news, strict=True):
                await self._tell(one, notice)
        except ChannelFailed as error:
            await self._mark(rows, [{"last_error": storable(str(error))}] * len(rows))
            raise
        else:
            await self._mark(rows, [{"text": notice.text, **_sent()} for notice in news])
        return len(found)

    async def _tell(self, one: Owed, notice: Notice) -> None:
        try:
            await self._mirror.show([notice])
        except AlertRefused as error:
            await self._put_off(one, error)
        else:
            await self._mark([one], [{"text": notice.text, **_sent()}])

    async def _tell_what_lasts(self) -> None:
        now = time.monotonic()
        if now < self._again_at:
            return
        async for told in lasting.waiting_items(self._store, self._mirror.name, self._desk, TOGETHER):
            await self._show(told)
        since = time.time() - self._mirror.expiry
        told = await lasting.warnings(self._store, self._mirror.name, self._desk, since)
        for begin in range(0, len(told), TOGETHER):
            await self._show(told[begin : begin + TOGETHER])
        self._again_at = now + self._mirror.expiry / ROUNDS

    async def _show(self, told: Sequence[Notice]) -> None:
        """Show these; one that is refused, which it was not when it was new, keeps no other from lasting."""
        try:
            await self._mirror.show(told)
        except AlertRefused as error:
            if len(told) == 1:
                about = told[0].key
                event(logger, "alert.failed", logging.WARNING, about=about, channel=self._mirror.name, error=error)
                return
            middle = len(told) // 2
            await self._show(told[:middle])
            await self._show(told[middle:])

    async def _put_off(self, one: Owed, error: Exception) -> None:
        event(logger, "alert.failed", logging.WARNING, about=one.about, channel=self._mirror.name, error=error)
        later = {"last_error": storable(str(error)), "due_at": time.time() + _REFUSED_AGAIN_AFTER}
        await self._mark([one], [later])

    async def _mark(self, rows: Sequence[Owed], changes: Sequence[dict[str, Any]]) -> None:
        async with self._store.writing() as transaction:
            await owed.mark_each(transaction, list(zip(rows, changes, strict=True)))


def _sent() -> dict[str, Any]:
    return {"sent_at": time.time(), "last_error": None}
