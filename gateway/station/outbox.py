"""Sends the alerts that the store owes, each at least once, with a growing pause after a failure.

Owns the rows of `alerts` and `notices` from their insertion on, those of mirrors aside. An alert is marked after it
went out, never before; a station that dies in between says it twice. No channel waits for another one, and no alert
can end the sending of others. What is too much for people becomes one message.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, assert_never

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.logs import event
from gateway.station import announcing, escalations, owed
from gateway.station.channels import Channel, Manner, Mirror, Notice, Swift
from gateway.station.escalations import ESCALATION
from gateway.station.holding import AlertEvent
from gateway.station.mirroring import Mirroring
from gateway.station.owed import Owed
from gateway.station.pace import Pace, Rate, Turn
from gateway.station.pauses import pause
from gateway.station.rollup import rolled_up
from gateway.station.storable import storable
from gateway.station.store import Store

POLL: Final = 0.5
"""Seconds between looks: reviewers decide in other processes, which cannot wake this one."""
BATCH: Final = 128
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 300.0
_LONGEST_REST: Final = 30.0
_MOST_DOUBLINGS: Final = 16
_STORE_TROUBLE: Final = (sa.exc.SQLAlchemyError, OSError)

logger: Final = logging.getLogger("lazaretto.outbox")


@dataclass(frozen=True, slots=True)
class _End:
    """What became of one try."""

    changes: dict[str, Any]
    handed_over: bool = False
    """People outside have it."""
    closed: bool = False
    """They know that it is decided."""
    reference: str | None = None
    """What they call it."""

    decided_at: float | None = None
    """When the decision was made of which it told."""
    is_needless: bool = False
    """Nothing was sent, since there was nothing to be told."""

    @property
    def is_good(self) -> bool:
        return "sent_at" in self.changes


class Outbox:
    """The sending side. `run` until `stop` is set."""

    def __init__(
        self, *, store: Store, channels: Sequence[Channel], mirrors: Sequence[Mirror] = (), desk: str, rate: Rate
    ) -> None:
        """`desk` is the beginning of links, without a slash at its end."""
        self._store = store
        self._channels = channels
        self._mirrors = mirrors
        self._desk = desk
        self._rate = rate

    async def run(self, stop: asyncio.Event) -> None:
        """Send what is due, again and again; while the store cannot be used, wait for it."""
        try:
            await self._retire(stop)
            async with asyncio.TaskGroup() as group:
                for channel in self._channels:
                    serving = _Serving(store=self._store, channel=channel, desk=self._desk, rate=self._rate)
                    group.create_task(serving.run(stop))
                for mirror in self._mirrors:
                    served = Mirroring(store=self._store, mirror=mirror, desk=self._desk)
                    group.create_task(served.run(stop))
        finally:
            for channel in self._channels:
                await channel.close()
            for mirror in self._mirrors:
                await mirror.close()

    async def _retire(self, stop: asyncio.Event) -> None:
        configured = [*(channel.name for channel in self._channels), *(mirror.name for mirror in self._mirrors)]
        while not stop.is_set():
            try:
                retired, returned = await owed.retire(self._store, configured)
            except _STORE_TROUBLE as error:
                event(logger, "outbox.waits", logging.WARNING, error=error)
                await pause(stop, _FIRST_PAUSE)
                continue
            for channel, number in retired.items():
                event(logger, "alerts.retired", logging.WARNING, channel=channel, alerts=number)
            for channel, number in returned.items():
                event(logger, "alerts.owed_again", channel=channel, alerts=number)
            return


class _Serving:
    """One channel and its alerts, at its own pace: a dead or slow one must not keep any other waiting."""

    def __init__(self, *, store: Store, channel: Channel, desk: str, rate: Rate) -> None:
        self._store = store
        self._channel = channel
        self._desk = desk
        self._pace = Pace(rate)
        self._ended: dict[tuple[str, int], _End] = {}
        """What was sent and the store could not be told yet, so that it is said once."""
        self._unmarked: tuple[Mapping[str, Sequence[int]], dict[str, Any]] | None = None
        """The same of a message of many."""

    async def run(self, stop: asyncio.Event) -> None:
        failures = 0
        while not stop.is_set():
            tried, failed = 0, False
            try:
                await self._mark_together()
                due = await owed.due(self._store, self._channel.name, BATCH)
                tried, failed = await self._round(due, stop)
            except _STORE_TROUBLE as error:
                event(logger, "outbox.waits", logging.WARNING, channel=self._channel.name, error=error)
            failures = failures + 1 if failed else 0 if tried else failures
            if failed:
                await pause(stop, min(_LONGEST_REST, _doubled(failures - 1)))
            elif tried < BATCH:
                await pause(stop, POLL)

    async def _round(self, due: Sequence[Owed], stop: asyncio.Event) -> tuple[int, bool]:
        """Send what may go out now; return how many were tried, and whether the last one failed."""
        many = [one for one in due if one.may_be_rolled] if self._channel.manner is Manner.FEW else []
        turn = self._pace.turn(len(many), time.monotonic()) if many else Turn.SINGLY
        singly = due if turn is Turn.SINGLY else [one for one in due if not one.may_be_rolled]
        at_once, tried = self._channel.at_once, 0
        for begin in range(0, len(singly), at_once):
            number, good = await self._settle(singly[begin : begin + at_once])
            tried += number
            if not good or stop.is_set():
                return tried, not good
        match turn:
            case Turn.TOGETHER:
                self._pace.sent(Turn.TOGETHER, time.monotonic())
                return tried + 1, not await self._settle_together()
            case Turn.SINGLY | Turn.LATER:
                return tried, False
            case _:
                assert_never(turn)

    async def _settle(self, some: Sequence[Owed]) -> tuple[int, bool]:
        """Send alerts and mark them in one transaction; return how many were tried, and whether all went well."""
        unsent = [one for one in some if one.id not in self._ended]
        for one, end in zip(unsent, await self._attempt(unsent), strict=False):
            self._ended[one.id] = end
        tried = [(one, self._ended[one.id]) for one in some if one.id in self._ended]
        async with self._store.writing() as transaction:
            ended = [(one, end) for one, end in tried if not await self._is_reopened(transaction, one, end)]
            for one, end in ended:
                if end.closed:
                    await escalations.note_closed(transaction, one.row.ticket, one.row.generation, time.time())
            told = {
                one.row.id: (one.row.ticket, one.row.generation, end.decided_at)
                for one, end in ended
                if end.decided_at is not None
            }
            overtaken = await owed.decided_anew(transaction, told)
            await owed.mark_each(transaction, [(one, end.changes) for one, end in ended])
            if overtaken:
                await owed.owe_again(transaction, overtaken)
            for one, end in ended:
                if end.handed_over:
                    await escalations.note_sent(
                        transaction,
                        ticket=one.row.ticket,
                        generation=one.row.generation,
                        reference=end.reference,
                        now=time.time(),
                    )
        for one, _ in tried:
            del self._ended[one.id]
        return len(tried), all(end.is_good for _, end in tried)

    async def _is_reopened(self, transaction: AsyncConnection, one: Owed, end: _End) -> bool:
        """Tell whether somebody has decided otherwise since there was nothing to be told: it is looked at again."""
        return end.is_needless and not await announcing.is_needless(transaction, one, self._channel.name)

    async def _attempt(self, some: Sequence[Owed]) -> list[_End]:
        """Return what became of the first ones of these; where the very first fails, no other is tried."""
        worded = await announcing.worded(self._store, some, self._channel.name, self._desk)
        ends: list[_End] = []
        for begin, end in ((0, 1), (1, len(some))):
            if all(one.is_good for one in ends):
                ends += await self._send(some[begin:end], worded[begin:end])
        return ends

    async def _send(self, some: Sequence[Owed], worded: Sequence[Notice | str | Exception]) -> list[_End]:
        for one, notice in zip(some, worded, strict=True):
            if one.may_be_rolled and not isinstance(notice, str):
                self._pace.sent(Turn.SINGLY, time.monotonic())
        answers = iter(await self._answers([notice for notice in worded if isinstance(notice, Notice)]))
        return [
            self._end(one, notice, next(answers) if isinstance(notice, Notice) else None)
            for one, notice in zip(some, worded, strict=True)
        ]

    async def _answers(self, notices: Sequence[Notice]) -> Sequence[str | BaseException | None]:
        """Return of each what the other side calls it, if it says, or why it did not go out."""
        if len(notices) > 1 and isinstance(self._channel, Swift):
            try:
                return await self._channel.send_all(notices)
            except Exception as error:  # noqa: BLE001 - whatever one alert makes go wrong, the others are sent
                event(logger, "alerts.singly", logging.WARNING, channel=self._channel.name, error=error)
        return await asyncio.gather(*map(self._channel.send, notices), return_exceptions=True)

    def _end(self, one: Owed, notice: Notice | str | Exception, answer: str | BaseException | None) -> _End:
        if isinstance(notice, str):
            return _End(changes=_sent(notice), is_needless=True)
        error = notice if isinstance(notice, Exception) else answer
        if isinstance(notice, Exception) or isinstance(error, BaseException):
            event(logger, "alert.failed", logging.WARNING, about=one.about, channel=self._channel.name, error=error)
            text = one.row.text if isinstance(notice, Exception) else notice.text
            return _End(changes={"text": text, **_failed(error, one.row.tries)})
        is_outside = self._channel.name == ESCALATION
        is_end = one.row.event == AlertEvent.RESOLVED
        return _End(
            changes=_sent(notice.text),
            handed_over=is_outside and one.row.event == AlertEvent.QUARANTINED,
            closed=is_outside and is_end,
            decided_at=notice.over_at if one.is_of_an_item and is_end else None,
            reference=error,
        )

    async def _settle_together(self) -> bool:
        """Tell of all that is due in one message and mark it."""
        bundle = await owed.bundle(self._store, self._channel.name)
        at_once = self._channel.at_once
        for begin in range(0, len(bundle.undone), at_once):
            await self._settle(bundle.undone[begin : begin + at_once])
        if not bundle.mentions:
            return True
        notice = rolled_up(bundle.mentions, self._desk, time.time())
        try:
            await self._channel.send(notice)
        except Exception as error:  # noqa: BLE001 - the same as for one alert
            number = len(bundle.mentions)
            event(logger, "alert.failed", logging.WARNING, about=number, channel=self._channel.name, error=error)
            changes = _failed(error, 0)
        else:
            event(logger, "alerts.rolled_up", channel=self._channel.name, alerts=len(bundle.mentions))
            changes = _sent(notice.text)
        self._unmarked = (bundle.ids, changes)
        await self._mark_together()
        return "sent_at" in changes

    async def _mark_together(self) -> None:
        if self._unmarked is not None:
            async with self._store.writing() as transaction:
                await owed.mark(transaction, self._channel.name, *self._unmarked)
            self._unmarked = None


def _sent(text: str) -> dict[str, Any]:
    return {"text": text, "sent_at": time.time(), "last_error": None}


def _failed(error: object, tries: int) -> dict[str, Any]:
    due_at = time.time() + min(_LONGEST_PAUSE, _doubled(tries))
    return {"due_at": due_at, "last_error": storable(str(error))}


def _doubled(times: int) -> float:
    # A power without a bound ends in an OverflowError once an alert has failed a thousand times.
    return _FIRST_PAUSE * float(2 ** min(times, _MOST_DOUBLINGS))
