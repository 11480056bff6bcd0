"""One channel that hands over what its consumers are sent, as it arrives, and acknowledges without waiting.

Owns the putting together of deliveries, and the frames of acknowledgements: all of one turn of the loop leave together.
`plain_receive_channel` does the same by the client's own.
"""

import asyncio
import logging
import struct
from collections.abc import Callable
from typing import Any, Final

from pamqp.base import Frame
from pamqp.commands import Basic, Channel

from gateway.amqp import revival
from gateway.amqp.cutter import BODY, END, HEADER, METHOD
from gateway.amqp.line import Line
from gateway.amqp.own_channel import OwnChannel
from gateway.amqp.reading import BODY_SIZE, received
from gateway.contract.logs import event
from gateway.contract.wire import Wire

log = logging.getLogger("gateway.amqp")

_DELIVER: Final = struct.pack(">HH", 60, 60)
_CONSUMER: Final = len(_DELIVER)
_TAG: Final = struct.Struct(">Q?")
"""Of a delivery, behind the consumer's tag: its own tag, and whether it is redelivered."""
_ACK: Final = struct.Struct(">BHIHHQ?B")
_ACK_SIZE: Final = 13

Taken = Callable[[Wire, int, bool], None]
"""Takes a message, its delivery tag, and whether it is redelivered."""


class ReceiveChannel(OwnChannel):
    """A channel of its own on a connection, from `open` until it is closed by whoever does so first."""

    def __init__(self, line: Line, losing: "asyncio.Future[Any]", ending: Callable[[str], None]) -> None:
        """`ending` is told why nothing more comes, unless the connection is gone or this side has ended it."""
        super().__init__(line, losing)
        self._ending = ending
        self._consumers: dict[bytes, Taken] = {}
        self._started = 0
        self._taken: Taken | None = None
        """Of the delivery that is arriving."""
        self._tag, self._redelivered = 0, False
        self._header = b""
        self._pieces: list[bytes] = []
        self._left = 0

    async def consume(self, queue: str, prefetch: int, taken: Taken) -> str:
        """Start a consumer with its own prefetch, and return its tag; raises one of `broker.LOST`."""
        self._started += 1
        tag = f"lz-{self._number}-{self._started}"
        self._consumers[tag.encode()] = taken
        steps: list[Frame] = [Basic.Qos(prefetch_count=prefetch), Basic.Consume(queue=queue, consumer_tag=tag)]
        if self._line.revives:
            steps = [revival.ALLOW, *steps, revival.PREVENT]
        await asyncio.gather(*map(self._ask, steps))  # in this order, and nothing between them
        return tag

    async def cancel(self, consumer_tag: str) -> None:
        """End a consumer: when this returns, nothing comes to it any more. Raises one of `broker.LOST`."""
        await self._ask(Basic.Cancel(consumer_tag=consumer_tag))
        self._consumers.pop(consumer_tag.encode(), None)

    def ack(self, tag: int, *, multiple: bool = False) -> None:
        """Acknowledge with the writes of this turn of the loop, `multiple`: and all before it.

        Nothing where the channel is closed.
        """
        # An acknowledgement on a channel that the broker has closed would end the connection.
        if not self._closed.done():
            self._line.write(_ACK.pack(METHOD, self._number, _ACK_SIZE, 60, 80, tag, multiple, END))

    async def flush(self) -> None:
        """Return when acknowledgements go out before anything that is sent from now on: at once."""

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == METHOD:
            if payload.startswith(_DELIVER):
                self._begin(payload)
            elif isinstance(heard := self._hear(payload), Basic.Cancel):
                self._ending(f"the broker cancelled the consumer {heard.consumer_tag}")
        elif kind == HEADER:
            self._header = payload
            (self._left,) = BODY_SIZE.unpack_from(payload)
            if not self._left:
                self._hand_over(b"")
        elif kind == BODY:
            self._add(payload)

    def _begin(self, payload: bytes) -> None:
        end = _CONSUMER + 1 + payload[_CONSUMER]
        self._taken = self._consumers.get(payload[_CONSUMER + 1 : end])
        self._tag, self._redelivered = _TAG.unpack_from(payload, end)

    def _add(self, piece: bytes) -> None:
        self._left -= len(piece)
        if self._left and not self._pieces:
            self._pieces.append(piece)
        elif self._pieces:
            self._pieces.append(piece)
            if not self._left:
                self._hand_over(b"".join(self._pieces))
                self._pieces.clear()
        else:
            self._hand_over(piece)

    def _hand_over(self, body: bytes) -> None:
        taken, self._taken = self._taken, None
        if taken is None or self._closed.done():
            return
        try:
            taken(received(self._header, body), self._tag, self._redelivered)
        except Exception as error:
            event(log, "delivery.not_taken", logging.ERROR, tag=self._tag, error=error)
            log.exception("delivery.not_taken_trace")
            # Nobody will ever acknowledge it: kept here it would block a slot for ever (D09).
            self._ending(f"a delivery was not taken: {type(error).__name__}: {error}")

    def _ended(self, why: Channel.Close | None) -> None:
        if why is not None:
            self._ending(f"the broker closed the channel: {why.reply_code} {why.reply_text}")
