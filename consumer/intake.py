"""Deliveries in and acknowledgements out: consumers whose prefetch equals the slots, so that an unacknowledged delivery
is a running one; and others, where runs are short, for what is read ahead (P5).

Owns the careful beginning, prefetch 1 until the first delivery is settled, so that a message that kills the intake
itself takes no neighbours to the broker's delivery limit (P15). And the careful end: what is on its way to a consumer
when that is cancelled goes back to the queue marked as redelivered, and would be charged as lost though it never ran.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from functools import partial
from typing import Final

from consumer.session import Delivery, OnDelivery, Session

QUIET_SECONDS: Final = 0.25
"""With acknowledgements held back, what the broker has sent is here long before this."""


@dataclass(slots=True)
class _Consumer:
    """One consumer of the broker's, and what it has been handed that is not acknowledged."""

    prefetch: int
    tag: str = ""
    held: int = 0
    ended: bool = False


class Intake:
    """The consumers of one session."""

    def __init__(self, session: Session, queue: str, *, slots: int, on_delivery: OnDelivery) -> None:
        self._session = session
        self._queue = queue
        self._slots = slots
        self._on_delivery = on_delivery
        self._filling: list[_Consumer] = []
        """Those that fill the slots."""
        self._ahead: list[_Consumer] = []
        self._filled = 0
        """How many deliveries those that fill the slots may hold."""
        self._reach = 0
        """How many deliveries those ahead may hold."""
        self._left = 0
        """Deliveries here that a consumer has brought which has ended since."""
        self._brought_by: dict[int, _Consumer] = {}
        """By delivery tag: what is here and not acknowledged."""
        self._handed = asyncio.Event()
        """Set with each arrival."""
        self._may_acknowledge = asyncio.Event()
        self._may_acknowledge.set()
        self._changing = asyncio.Lock()
        self._is_paused = False
        self._paused = asyncio.Event()
        self.arrived = 0
        """Deliveries so far."""

    @property
    def is_open(self) -> bool:
        """Tell whether the broker has been asked for deliveries and is still to send some."""
        return bool(self._filling) and not self._is_paused

    @property
    def in_flight(self) -> int:
        """Deliveries that are here and not acknowledged."""
        return len(self._brought_by)

    def holds(self, delivery: Delivery) -> bool:
        """Tell whether a delivery is here and not acknowledged."""
        return delivery.tag in self._brought_by

    @property
    def holds_more(self) -> bool:
        """Tell whether more is here than fills the slots, whether more may still come or not."""
        return len(self._brought_by) > self._slots

    async def open(self) -> None:
        """Begin to consume, one delivery at a time; nothing where there are no slots. Raises SessionLost."""
        if not self._slots:
            return
        async with self._changing:
            await self._fill(1)

    async def acknowledge(self, delivery: Delivery) -> None:
        """Acknowledge one delivery; raises SessionLost. Called by settlement alone (P6)."""
        while not self._may_acknowledge.is_set():  # again: one end of consumers may follow upon another
            await self._session.until(self._may_acknowledge.wait())
        await self._session.send_ack(delivery)
        consumer = self._brought_by.pop(delivery.tag)
        consumer.held -= 1
        self._left -= consumer.ended

    async def widen(self, ahead: int) -> None:
        """Fill all slots from now on, and read so many deliveries ahead, or none any more; raises SessionLost.

        A prefetch holds for consumers that start after it was set, so others take what the first one does not.
        """
        if self._is_as_wide_as(ahead):
            return
        async with self._changing:
            if self._is_as_wide_as(ahead):
                return
            if (missing := self._missing) > 0:
                await self._fill(missing)
            if ahead < self._reach:
                narrowed, self._ahead, self._reach = self._ahead, [], 0
                await self._cancel(*narrowed)
            if ahead > self._reach:
                self._ahead.append(await self._consume(ahead - self._reach))
                self._reach = ahead

    async def step_aside(self) -> None:
        """Let nothing come until there is a slot for it that nothing here needs; raises SessionLost.

        What is given back now would else come straight back: it may have been brought by one of those that fill the
        slots, while what fills them was read ahead.
        """
        async with self._changing:
            if self._is_paused or not self._brought_by:  # with nothing here, nobody would ever widen it again
                return
            ended = [*self._filling, *self._ahead]
            self._filling, self._filled, self._ahead, self._reach = [], 0, [], 0
            await self._cancel(*ended)

    @property
    def _missing(self) -> int:
        return self._slots - self._filled - self._left

    def _is_as_wide_as(self, ahead: int) -> bool:
        return self._is_paused or (self._missing <= 0 and self._reach == ahead)

    async def pause(self) -> None:
        """Stop taking deliveries for good; raises SessionLost. Those that are here stay to be settled."""
        if self._is_paused:
            return await self.paused()
        self._is_paused = True
        async with self._changing:
            try:
                await self._cancel(*self._filling, *self._ahead)
            finally:
                self._paused.set()

    async def paused(self) -> None:
        """Return when nothing more can arrive here; raises SessionLost."""
        await self._session.until(self._paused.wait())

    async def _fill(self, prefetch: int) -> None:
        self._filling.append(await self._consume(prefetch))
        self._filled += prefetch

    async def _consume(self, prefetch: int) -> _Consumer:
        consumer = _Consumer(prefetch)
        consumer.tag = await self._session.consume(self._queue, prefetch, partial(self._arrived, consumer))
        return consumer

    async def _cancel(self, *consumers: _Consumer) -> None:
        """End consumers when nothing is on its way to them any more.

        Acknowledgements wait until the broker has used up its credit with them, or has had time to.
        """
        self._may_acknowledge.clear()
        try:
            with contextlib.suppress(TimeoutError):  # the queue is empty
                await asyncio.wait_for(self._session.until(self._used_up(consumers)), QUIET_SECONDS)
            for consumer in consumers:
                await self._session.cancel(consumer.tag)
                consumer.ended = True
                self._left += consumer.held
        finally:
            self._may_acknowledge.set()

    async def _used_up(self, consumers: tuple[_Consumer, ...]) -> None:
        while any(consumer.held < consumer.prefetch for consumer in consumers):
            self._handed.clear()
            await self._handed.wait()

    def _arrived(self, consumer: _Consumer, delivery: Delivery) -> None:
        self.arrived += 1
        consumer.held += 1
        self._brought_by[delivery.tag] = consumer
        self._handed.set()
        self._on_delivery(delivery)
