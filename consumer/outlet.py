"""Single publishes of one session, each with its fate, under one deadline.

Owns how long a confirm may take. Judges no fate: that is the session's.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from aio_pika.abc import AbstractConnection

from gateway.amqp.confirm_channel import ConfirmChannel
from gateway.amqp.fate import Fate
from gateway.contract.logs import event
from gateway.contract.topology import Route
from gateway.contract.wire import Wire

log = logging.getLogger("consumer.outlet")

_RENEW_AFTER_NACKS: Final = 3
_BLOCKED_SECONDS: Final = 0.01
"""A connection that is not blocked says at once that it is ready."""


class Outlet:
    """The publishing side of a session."""

    def __init__(self, connection: AbstractConnection, *, confirm_deadline: float, end: Callable[[str], None]) -> None:
        """`end` is told when a confirm is overdue and no alarm of the broker is the reason."""
        self._connection = connection
        self._channel = ConfirmChannel(connection, nack_streak=_RENEW_AFTER_NACKS)
        self._confirm_deadline = confirm_deadline
        self._end = end
        self._waiting: dict[asyncio.Future[Fate], float] = {}
        """When each of them has waited for long enough, on the loop's clock; the oldest is the first."""
        self._watching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Open the channel; raises one of `broker.LOST`."""
        await self._channel.ready()

    async def send(self, wire: Wire, route: Route) -> Fate:
        """Publish, and return what became of it: at the latest when this is abandoned."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Fate] = loop.create_future()
        self._waiting[answer] = loop.time() + self._confirm_deadline
        if self._watching is None:
            self._watching = loop.create_task(self._watch(), name="confirms")
        try:
            self._channel.publish(wire, route, lambda fate: None if answer.done() else answer.set_result(fate))
            return await answer
        finally:
            del self._waiting[answer]

    def abandon(self) -> None:
        """End everything that still waits: the session is over."""
        if self._watching is not None:
            self._watching.cancel()
        self._channel.abandon()

    async def _watch(self) -> None:
        """Look after the oldest publish that waits, until none does."""
        try:
            while self._waiting:
                await self._look_after(*next(iter(self._waiting.items())))
        finally:
            self._watching = None

    async def _look_after(self, oldest: asyncio.Future[Fate], due: float) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, due - loop.time()))
        if oldest not in self._waiting:
            return
        if not await self._is_blocked():
            self._end("no confirm in time")
            return
        event(log, "broker.blocked", logging.WARNING, waiting="confirm")
        for waiting in self._waiting:
            self._waiting[waiting] = max(self._waiting[waiting], loop.time() + self._confirm_deadline)

    async def _is_blocked(self) -> bool:
        transport = self._connection.transport
        if transport is None:
            return False
        try:
            await asyncio.wait_for(transport.connection.ready(), _BLOCKED_SECONDS)
        except TimeoutError:
            return True
        return False
