"""A channel that reads and writes its own frames on a line: what all of ours have in common.

Owns its opening and closing, and which answer belongs to which question. What a channel is for is its subclass's.
"""

import asyncio
from collections import deque
from typing import Any, Final, Self

from aio_pika.abc import AbstractConnection
from pamqp.base import Frame
from pamqp.commands import INDEX_MAPPING, Channel
from pamqp.frame import marshal

from gateway.amqp import broker
from gateway.amqp.cutter import METHOD
from gateway.amqp.line import Line, line_of

_INDEX: Final = 4
"""Bytes of a method's payload that say which one it is."""


class OwnChannel:
    """From `open` until it is closed by whoever does so first; what it is for is said by a subclass."""

    _steps: tuple[Frame, ...] = ()
    """What is asked of the broker once the channel is open."""

    def __init__(self, line: Line, losing: "asyncio.Future[Any]") -> None:
        """`losing` is done when the connection is gone: the library makes one for each who asks."""
        self._line = line
        self._losing = losing
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked: deque[asyncio.Future[Frame]] = deque()
        self._number = line.join(self._take)
        losing.add_done_callback(lambda _: self.abandon())

    @staticmethod
    def suits(connection: AbstractConnection) -> bool:
        """Tell whether the client library is one that this works with."""
        return line_of(connection) is not None

    @classmethod
    async def open(cls, connection: AbstractConnection, *rest: Any) -> Self:
        """Open a channel; `rest` is what a subclass wants to know. Raises one of `broker.LOST`."""
        line, transport = line_of(connection), connection.transport
        if line is None or line.is_lost or transport is None:
            raise broker.BrokerLost("the connection is closed")
        channel = cls(line, transport.connection.closing, *rest)
        try:
            for step in (Channel.Open(), *cls._steps):
                await broker.within(channel._ask(step), broker.CALL_DEADLINE)
        except BaseException:
            await channel.close()
            raise
        return channel

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be done on it any more."""
        return self._closed.done()

    def abandon(self) -> None:
        """End it without a word: its connection is gone."""
        self._end(None)

    async def close(self) -> None:
        """Close politely; what still waits is given up."""
        if self._closed.done() or self._line.is_lost:
            self.abandon()
            return
        try:
            self._send(Channel.Close(reply_code=200, reply_text="", class_id=0, method_id=0))
            await asyncio.wait({self._closed}, timeout=broker.CALL_DEADLINE)
        finally:
            self.abandon()

    def _take(self, kind: int, payload: bytes) -> None:
        """Take a frame from the line, in the order in which the broker sent them."""
        if kind == METHOD:
            self._hear(payload)

    def _hear(self, payload: bytes) -> Frame | None:
        """Take a method; returns those that neither answer a question nor end the channel."""
        heard: Frame = INDEX_MAPPING[int.from_bytes(payload[:_INDEX])]()
        heard.unmarshal(payload[_INDEX:])
        if isinstance(heard, Channel.Close):
            self._send(Channel.CloseOk())
            self._line.leave(self._number)
            self._end(heard)
        elif isinstance(heard, Channel.CloseOk):
            self._line.leave(self._number)
            self._end(None)
        elif self._asked and heard.name.endswith("Ok"):
            answered = self._asked.popleft()
            if not answered.done():
                answered.set_result(heard)
        else:
            return heard
        return None

    async def _ask(self, question: Frame) -> Frame:
        """Send a method and return its answer; raises BrokerLost. Answers come in the order of the questions."""
        if self._closed.done():
            raise broker.BrokerLost("the channel is closed")
        answered: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._asked.append(answered)
        self._send(question)
        both: set[asyncio.Future[Any]] = {answered, self._closed}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not answered.done():
            raise broker.BrokerLost("the channel was closed")
        return answered.result()

    def _send(self, frame: Frame) -> None:
        self._line.write(marshal(frame, self._number))

    def _end(self, why: Channel.Close | None) -> None:
        """Take note of the end, `why` being what the broker said of it; may come more than once."""
        if not self._closed.done():
            self._closed.set_result(None)
            self._losing.cancel()  # a connection outlives its channels: whom it would have to tell stays for as long
            self._ended(why)

    def _ended(self, why: Channel.Close | None) -> None:
        """Tell whoever waits on the channel."""
