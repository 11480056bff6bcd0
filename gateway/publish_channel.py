"""One channel in confirm mode that gives every publish its fate: many at the price of one write, none awaited.

Owns tags, returns and the writes. This is the one place that leans on how aiormq works inside: its connection hands the
frames of channel n to `channels[n].frames.put`, and writes what is put into `write_queue`. The lock file pins that and
tests hold it to it; `plain_channel` does the same by the client's own publish.
"""

import asyncio
import itertools
from dataclasses import dataclass
from typing import Any, Final, Self

from aio_pika.abc import AbstractConnection
from aiormq.abc import ChannelFrame
from aiormq.connection import Connection
from pamqp.base import Frame
from pamqp.commands import Basic, Channel, Confirm
from pamqp.header import ContentHeader

from gateway import broker
from gateway.contract.ids import uuid7
from gateway.contract.topology import Route
from gateway.contract.wire import Wire
from gateway.fate import Ended, Fate
from gateway.frames import Layout, Unencodable

_NOT_FOUND: Final = 404
_QUEUE_FULL_WAIT: Final = 0.01


@dataclass(slots=True)
class _Pending:
    message_id: str
    ended: Ended
    returned: bool = False


class PublishChannel:
    """A channel of its own on a connection, from `open` until it is closed by whoever does so first."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._number = next(number for number in itertools.count(1) if number not in connection.channels)
        self._layout = Layout(channel=self._number, frame_max=connection.connection_tune.frame_max or 0)
        self._tag = 0
        self._pending: dict[int, _Pending] = {}
        self._unwritten: list[bytes] = []
        self._writing = False
        self._returning = False
        self._answered: asyncio.Future[None] | None = None
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._losing = connection.closing
        """Done when the connection is gone; aiormq makes one for each who asks."""
        self.frames = self
        """What aiormq's connection looks for in a channel."""

    @staticmethod
    def suits(connection: AbstractConnection) -> bool:
        """Tell whether the client library is one that this works with."""
        inner = None if connection.transport is None else connection.transport.connection
        return (
            isinstance(inner, Connection)
            and isinstance(getattr(inner, "channels", None), dict)
            and isinstance(getattr(inner, "write_queue", None), asyncio.Queue)
        )

    @classmethod
    async def open(cls, connection: AbstractConnection) -> Self:
        """Open a channel in confirm mode; raises one of `broker.LOST`."""
        transport = connection.transport
        if transport is None or not isinstance(transport.connection, Connection) or transport.connection.is_closed:
            raise broker.BrokerLost("the connection is closed")
        channel = cls(transport.connection)
        channel._register()
        try:
            for step in (Channel.Open(), Confirm.Select()):
                await broker.within(channel._call(step), broker.CALL_DEADLINE)
        except BaseException:
            await channel.close()
            raise
        return channel

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be published on it any more."""
        return self._closed.done()

    @property
    def pending(self) -> int:
        """How many publishes wait for their confirm."""
        return len(self._pending)

    def publish(self, wire: Wire, route: Route, ended: Ended) -> None:
        """Publish with the writes of this turn of the loop; `ended` is told the fate, for certain, and once."""
        if self._closed.done():
            ended(Fate.CLOSED)
            return
        message_id = wire.message_id or uuid7()
        try:
            frames = self._layout.publish(wire, message_id, route)
        except Unencodable:
            ended(Fate.UNENCODABLE)
            return
        self._tag += 1
        self._pending[self._tag] = _Pending(message_id, ended)
        self._unwritten.append(frames)
        if not self._writing:
            self._writing = True
            self._loop.call_soon(self._write)

    def abandon(self) -> None:
        """End what still waits: its connection is gone."""
        self._end(Fate.CLOSED)

    async def close(self) -> None:
        """Close politely; what still waits is given up."""
        if self._closed.done() or self._connection.is_closed:
            self.abandon()
            return
        try:
            self._send(Channel.Close(reply_code=200, reply_text="", class_id=0, method_id=0))
            await asyncio.wait({self._closed}, timeout=broker.CALL_DEADLINE)
        finally:
            self.abandon()

    async def put(self, received: tuple[int, Any]) -> None:
        """Take a frame from aiormq's connection, in the order in which the broker sent them."""
        frame = received[1]
        kind = type(frame)
        if kind is Basic.Ack:
            self._settle(frame.delivery_tag, multiple=frame.multiple, fate=Fate.CONFIRMED)
        elif kind is Basic.Nack:
            self._settle(frame.delivery_tag, multiple=frame.multiple, fate=Fate.NACKED)
        elif kind is Basic.Return:
            self._returning = True
        elif kind is ContentHeader:
            if self._returning:
                self._returning = False
                self._take_back(frame.properties.message_id)
        elif kind is Channel.Close:
            self._send(Channel.CloseOk())
            self._end(Fate.NO_EXCHANGE if frame.reply_code == _NOT_FOUND else Fate.CLOSED)
        elif kind is Channel.CloseOk:
            self._end(Fate.CLOSED)
        elif kind in (Channel.OpenOk, Confirm.SelectOk) and self._answered is not None and not self._answered.done():
            self._answered.set_result(None)

    def _register(self) -> None:
        self._connection.channels[self._number] = self  # type: ignore[assignment] # as much of a channel as is used
        self._losing.add_done_callback(lambda _: self.abandon())

    async def _call(self, frame: Frame) -> None:
        self._answered = self._loop.create_future()
        self._send(frame)
        await asyncio.wait({self._answered, self._closed}, return_when=asyncio.FIRST_COMPLETED)
        if self._closed.done():
            raise broker.BrokerLost("the channel was closed")

    def _settle(self, tag: int, *, multiple: bool, fate: Fate) -> None:
        # Tag 0 stands for all of them (specification 0-9-1, Basic.Ack).
        tags = [each for each in self._pending if each <= tag or tag == 0] if multiple else [tag]
        for each in tags:
            pending = self._pending.pop(each, None)
            if pending is not None:
                # A message that found no queue is returned first, and confirmed then: the broker is done with it.
                pending.ended(Fate.UNROUTABLE if pending.returned else fate)

    def _take_back(self, message_id: str | None) -> None:
        for pending in self._pending.values():
            if pending.message_id == message_id:
                pending.returned = True
                return

    def _end(self, fate: Fate) -> None:
        if not self._closed.done():
            self._closed.set_result(None)
        self._losing.cancel()  # a connection outlives its channels: whom it would have to tell stays for as long
        self._unwritten.clear()
        waiting, self._pending = list(self._pending.values()), {}
        for pending in waiting:
            pending.ended(Fate.UNROUTABLE if pending.returned else fate)

    # Writing

    def _write(self) -> None:
        """Write all there is, and once more when that is out: the writer's pace is the size of the next batch."""
        if not self._unwritten:
            self._writing = False
            return
        written = self._loop.create_future()
        self._put(ChannelFrame(payload=b"".join(self._unwritten), should_close=False, drain_future=written))
        self._unwritten.clear()
        written.add_done_callback(lambda _: self._write())

    def _send(self, frame: Frame) -> None:
        self._put(ChannelFrame.marshall(self._number, [frame]))

    def _put(self, frames: ChannelFrame) -> None:
        if self._connection.is_closed:
            return
        try:
            self._connection.write_queue.put_nowait(frames)
        except asyncio.QueueFull:
            self._loop.call_later(_QUEUE_FULL_WAIT, self._put, frames)
