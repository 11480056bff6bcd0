"""Deliveries in: one consumer whose prefetch equals the slots, so an unacknowledged delivery is a running one (P5).

Owns the careful beginning: prefetch 1 until the first delivery is settled, so that a message that kills the intake
itself takes no neighbours to the broker's delivery limit (P15).
"""

import asyncio

from consumer.session import OnDelivery, Session


class Intake:
    """The consumer of one session."""

    def __init__(self, session: Session, queue: str, *, slots: int, on_delivery: OnDelivery) -> None:
        self._session = session
        self._queue = queue
        self._slots = slots
        self._on_delivery = on_delivery
        self._tag: str | None = None
        self._is_wide = slots <= 1
        self._is_paused = False
        self._changing = asyncio.Lock()

    async def open(self) -> None:
        """Begin to consume; raises SessionLost."""
        async with self._changing:
            await self._consume(self._slots if self._is_wide else 1)

    async def widen(self) -> None:
        """Fill all slots from now on; raises SessionLost.

        A prefetch holds for consumers that start after it was set, so the careful one gives way to a new one.
        """
        if self._is_wide:
            return
        self._is_wide = True
        async with self._changing:
            if not self._is_paused:
                await self._cancel()
                await self._consume(self._slots)

    async def pause(self) -> None:
        """Stop taking deliveries for good; those already here stay. Raises SessionLost."""
        self._is_paused = True
        async with self._changing:
            await self._cancel()

    async def _consume(self, prefetch: int) -> None:
        self._tag = await self._session.consume(self._queue, prefetch, self._on_delivery)

    async def _cancel(self) -> None:
        tag, self._tag = self._tag, None
        if tag is not None:
            await self._session.cancel(tag)
