"""Deliveries in and acknowledgements out: consumers whose prefetch equals the slots, so that an unacknowledged delivery
is a running one (P5).

Owns the careful beginning, prefetch 1 until the first delivery is settled, so that a message that kills the intake
itself takes no neighbours to the broker's delivery limit (P15). And the careful end: what is on its way to a consumer
when that is cancelled goes back to the queue marked as redelivered, and would be charged as lost though it never ran.
"""

import asyncio
import contextlib
from typing import Final

from consumer.session import Delivery, OnDelivery, Session

QUIET_SECONDS: Final = 0.25
"""With acknowledgements held back, what the broker has sent is here long before this."""


class Intake:
    """The consumers of one session."""

    def __init__(self, session: Session, queue: str, *, slots: int, on_delivery: OnDelivery) -> None:
        self._session = session
        self._queue = queue
        self._slots = slots
        self._on_delivery = on_delivery
        self._tags: list[str] = []
        self._credit = 0
        self._unacknowledged = 0
        self._exhausted = asyncio.Event()
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
        return bool(self._tags) and not self._is_paused

    @property
    def in_flight(self) -> int:
        """Deliveries that are here and not acknowledged."""
        return self._unacknowledged

    async def open(self) -> None:
        """Begin to consume, one delivery at a time; nothing where there are no slots. Raises SessionLost."""
        if not self._slots:
            return
        async with self._changing:
            await self._consume(1)

    async def acknowledge(self, delivery: Delivery) -> None:
        """Acknowledge one delivery; raises SessionLost. Called by settlement alone (P6)."""
        await self._session.until(self._may_acknowledge.wait())
        await self._session.send_ack(delivery)
        self._unacknowledged -= 1
        self._exhausted.clear()

    async def widen(self) -> None:
        """Fill all slots from now on; raises SessionLost.

        A prefetch holds for consumers that start after it was set, so a second consumer takes the other slots.
        """
        if self._credit >= self._slots or self._is_paused:
            return
        async with self._changing:
            if self._credit < self._slots and not self._is_paused:
                await self._consume(self._slots - self._credit)

    async def pause(self) -> None:
        """Stop taking deliveries for good; raises SessionLost. Those that are here stay to be settled.

        Acknowledgements wait until the broker has used up its credit, or has had time to: then nothing is on its way.
        """
        if self._is_paused:
            return await self.paused()
        self._is_paused = True
        async with self._changing:
            self._may_acknowledge.clear()
            try:
                with contextlib.suppress(TimeoutError):  # the queue is empty
                    await asyncio.wait_for(self._session.until(self._exhausted.wait()), QUIET_SECONDS)
                for tag in self._tags:
                    await self._session.cancel(tag)
            finally:
                self._may_acknowledge.set()
                self._paused.set()

    async def paused(self) -> None:
        """Return when nothing more can arrive here; raises SessionLost."""
        await self._session.until(self._paused.wait())

    async def _consume(self, prefetch: int) -> None:
        self._credit += prefetch
        self._exhausted.clear()
        self._tags.append(await self._session.consume(self._queue, prefetch, self._arrived))

    def _arrived(self, delivery: Delivery) -> None:
        self.arrived += 1
        self._unacknowledged += 1
        if self._unacknowledged >= self._credit:
            self._exhausted.set()
        self._on_delivery(delivery)
