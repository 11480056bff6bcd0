"""A channel whose every publish gets one fate.

Owns the translation from what the client library raises to what happened. Never calls anything but a routed,
persistent, confirmed publish a success, and never waits longer than its connection lives.
"""

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import ChannelNotFoundEntity, DeliveryError, PublishError

from gateway import broker
from gateway.contract.topology import Route
from gateway.contract.wire import Wire

_NACK_STREAK: Final = 5
"""Nacks in a row after which a new channel is opened: on RabbitMQ 3.10 a channel that first published during a
failover was nacked for ever."""


class Fate(StrEnum):
    """What became of a publish; all but the first also name the reason in `publish_failures_total`."""

    CONFIRMED = "confirmed"
    UNROUTABLE = "unroutable"
    NO_EXCHANGE = "no_exchange"
    """The exchange is missing; the broker closed the channel, so all publishes on it share this fate."""
    NACKED = "nacked"
    CLOSED = "closed"
    TIMED_OUT = "timed_out"
    BLOCKED = "blocked"
    DISCONNECTED = "disconnected"
    OVERLOADED = "overloaded"


@dataclass(slots=True)
class _Opened:
    channel: AbstractChannel
    pending: int = 0
    nacks: int = 0
    retired: bool = False


class ConfirmChannel:
    """A channel in confirm mode that is replaced when the broker closes it or nacks a streak."""

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection = connection
        self._opened: _Opened | None = None
        self._opening = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()

    async def ready(self) -> None:
        """Open the channel if it is not; raises one of `broker.LOST`."""
        await self._open()

    async def publish(self, wire: Wire, route: Route) -> Fate:
        """Publish and wait for the confirm; raises nothing but the cancellation of the caller."""
        try:
            opened = await self._open()
        except broker.LOST:
            return Fate.CLOSED
        opened.pending += 1
        try:
            fate = await self._fate(opened.channel, wire, route)
            opened.nacks = opened.nacks + 1 if fate is Fate.NACKED else 0
        finally:
            # However it ended, a retired channel must not wait for it any longer.
            opened.pending -= 1
            self._retire_after_streak(opened)
        return fate

    async def _open(self) -> _Opened:
        async with self._opening:
            if self._opened is None or self._opened.channel.is_closed:
                self._opened = _Opened(await broker.open_channel(self._connection))
            return self._opened

    async def _fate(self, channel: AbstractChannel, wire: Wire, route: Route) -> Fate:
        try:
            exchange = await channel.get_exchange(route.exchange, ensure=False)
            await exchange.publish(_message(wire), route.key, mandatory=True)
        except PublishError:
            return Fate.UNROUTABLE
        except DeliveryError:
            return Fate.NACKED
        except ChannelNotFoundEntity:
            return Fate.NO_EXCHANGE
        except broker.LOST:
            return Fate.CLOSED
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return Fate.CLOSED  # so the client ends a publish on a frozen link
        return Fate.CONFIRMED

    def _retire_after_streak(self, opened: _Opened) -> None:
        if opened.nacks >= _NACK_STREAK and not opened.retired:
            opened.retired = True
            if self._opened is opened:
                self._opened = None
        # Closing at once would fail the publishes that still wait on it, stored or not.
        if opened.retired and opened.pending == 0 and not opened.channel.is_closed:
            closing = asyncio.create_task(_close(opened.channel))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


async def _close(channel: AbstractChannel) -> None:
    try:
        await broker.within(channel.close(), broker.CALL_DEADLINE)
    except broker.LOST:
        return


def _message(wire: Wire) -> aio_pika.Message:
    return aio_pika.Message(
        wire.body,
        headers=dict(wire.headers),
        message_id=wire.message_id,
        correlation_id=wire.correlation_id,
        type=wire.type,
        content_type=wire.content_type,
        content_encoding=wire.content_encoding,
        timestamp=wire.timestamp,
        app_id=wire.app_id,
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
    )
