"""A channel that is replaced: when the broker closes it, or when it does nothing but nack.

Owns which channel the next publish goes to. Never calls anything but a routed, persistent, confirmed publish a success,
and never lets a publish wait longer than its connection lives.
"""

import asyncio
from dataclasses import dataclass
from typing import Final, Protocol

from aio_pika.abc import AbstractConnection

from gateway.amqp import broker
from gateway.amqp.fate import Ended, Fate
from gateway.amqp.plain_channel import PlainChannel
from gateway.amqp.publish_channel import PublishChannel
from gateway.amqp.stencil import Message
from gateway.contract.topology import Route
from gateway.contract.wire import Wire

NACK_STREAK: Final = 5
"""Nacks in a row after which a new channel is opened: on RabbitMQ 3.10 a channel that first published during a
failover was nacked for ever."""


class Publishing(Protocol):
    """What `publish_channel` and `plain_channel` both are."""

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be published on it any more."""

    @property
    def pending(self) -> int:
        """How many publishes wait for their confirm."""

    def publish(self, wire: Message, route: Route, ended: Ended) -> None:
        """Publish; `ended` is told the fate, for certain, and once."""

    def abandon(self) -> None:
        """End what still waits."""

    async def close(self) -> None:
        """Close politely."""


@dataclass(slots=True)
class _Opened:
    channel: Publishing
    nacks: int = 0
    retired: bool = False


class ConfirmChannel:
    """Publishes on one connection, on one channel at a time."""

    def __init__(self, connection: AbstractConnection, *, nack_streak: int = NACK_STREAK) -> None:
        self._connection = connection
        self._nack_streak = nack_streak
        self._opened: _Opened | None = None
        self._retired: list[_Opened] = []
        self._early: list[tuple[Message, Route, Ended]] = []
        """What came while there was no channel."""
        self._opening: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._abandoned = False

    @property
    def is_closed(self) -> bool:
        """Whether the next publish has to wait for another channel."""
        return self._opened is None or self._opened.channel.is_closed

    async def ready(self) -> None:
        """Open the channel; raises one of `broker.LOST`."""
        self._opened = _Opened(await _open(self._connection))

    def publish(self, wire: Message, route: Route, ended: Ended) -> None:
        """Publish; `ended` is told the fate, for certain, and once: at the latest when this is abandoned."""
        if self._abandoned:
            ended(Fate.CLOSED)
            return
        opened = self._opened
        if opened is None or opened.channel.is_closed:
            self._early.append((wire, route, ended))
            if self._opening is None:
                self._opening = asyncio.create_task(self._open_anew())
            return

        def judged(fate: Fate) -> None:
            if fate is Fate.CONFIRMED:
                opened.nacks = 0
            elif fate is Fate.NACKED:
                opened.nacks += 1
                self._retire_after_streak(opened)
            ended(fate)
            if opened.retired:
                self._close_when_done(opened)

        opened.channel.publish(wire, route, judged)

    async def ask(self, wire: Wire, route: Route) -> Fate:
        """Publish and return the fate."""
        answer: asyncio.Future[Fate] = asyncio.get_running_loop().create_future()
        self.publish(wire, route, lambda fate: None if answer.done() else answer.set_result(fate))
        return await answer

    def abandon(self) -> None:
        """End everything that still waits, and all that comes later: the connection is gone."""
        self._abandoned = True
        if self._opening is not None:
            self._opening.cancel()
        for opened in (*self._retired, *([] if self._opened is None else [self._opened])):
            opened.channel.abandon()
        self._refuse_early()

    async def _open_anew(self) -> None:
        try:
            await self.ready()
        except broker.LOST:
            self._refuse_early()
        finally:
            self._opening = None
        early, self._early = self._early, []
        for wire, route, ended in early:
            self.publish(wire, route, ended)

    def _refuse_early(self) -> None:
        early, self._early = self._early, []
        for _, _, ended in early:
            ended(Fate.CLOSED)

    def _retire_after_streak(self, opened: _Opened) -> None:
        if opened.nacks >= self._nack_streak and not opened.retired:
            opened.retired = True
            self._retired.append(opened)
            if self._opened is opened:
                self._opened = None

    def _close_when_done(self, opened: _Opened) -> None:
        # Closing at once would fail the publishes that still wait on it, stored or not.
        if opened.channel.pending == 0 and opened in self._retired:
            self._retired.remove(opened)
            closing = asyncio.create_task(opened.channel.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


async def _open(connection: AbstractConnection) -> Publishing:
    """Open a channel of the quick sort where the client library is the one that it was made for."""
    return await (PublishChannel if PublishChannel.suits(connection) else PlainChannel).open(connection)
