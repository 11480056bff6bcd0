"""One channel in confirm mode that gives every publish its fate: many at the price of one write, none awaited.

Owns tags and returns. `plain_channel` does the same by the client's own publish.
"""

import asyncio
import struct
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from pamqp.base import Frame
from pamqp.commands import Basic, Channel, Confirm
from pamqp.header import ContentHeader

from gateway.amqp.cutter import HEADER, METHOD
from gateway.amqp.fate import Ended, Fate
from gateway.amqp.frames import Layout, Unencodable
from gateway.amqp.line import Line
from gateway.amqp.own_channel import OwnChannel
from gateway.amqp.stencil import Message
from gateway.contract.ids import uuid7
from gateway.contract.topology import Route

_NOT_FOUND: Final = 404
_ACK: Final = struct.pack(">HH", 60, 80)
_CONFIRM: Final = struct.Struct(">4xQ?")
"""Basic.Ack: the tag, and whether all below are meant, too."""


@dataclass(slots=True)
class _Pending:
    message_id: str
    route: Route
    ended: Ended
    returned: bool = False


class PublishChannel(OwnChannel):
    """A channel of its own on a connection, from `open` until it is closed by whoever does so first."""

    _steps = (Confirm.Select(),)

    def __init__(self, line: Line, losing: "asyncio.Future[Any]") -> None:
        super().__init__(line, losing)
        self._layout = Layout(channel=self._number, frame_max=line.frame_max)
        self._tag = 0
        self._pending: dict[int, _Pending] = {}
        self._returning: Route | None = None
        """Where a message was meant to go that is being returned."""

    @property
    def pending(self) -> int:
        """How many publishes wait for their confirm."""
        return len(self._pending)

    def publish(self, wire: Message, route: Route, ended: Ended) -> None:
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
        self._pending[self._tag] = _Pending(message_id, route, ended)
        self._line.write(frames)

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == METHOD:
            if payload.startswith(_ACK):
                tag, multiple = _CONFIRM.unpack(payload)
                self._settle(tag, multiple=multiple, fate=Fate.CONFIRMED)
            else:
                self._judge(self._hear(payload))
        elif kind == HEADER and self._returning is not None:
            route, self._returning = self._returning, None
            header = ContentHeader()
            header.unmarshal(payload)
            self._take_back(header.properties.message_id, route)

    def _judge(self, heard: Frame | None) -> None:
        if isinstance(heard, Basic.Nack):
            self._settle(heard.delivery_tag, multiple=heard.multiple, fate=Fate.NACKED)
        elif isinstance(heard, Basic.Return):
            self._returning = Route(exchange=heard.exchange or "", key=heard.routing_key or "")

    def _settle(self, tag: int, *, multiple: bool, fate: Fate) -> None:
        # Tag 0 stands for all of them (specification 0-9-1, Basic.Ack).
        for each in list(takewhile(lambda each: each <= tag or tag == 0, self._pending)) if multiple else (tag,):
            pending = self._pending.pop(each, None)
            if pending is not None:
                # A message that found no queue is returned first, and confirmed then: the broker is done with it.
                pending.ended(Fate.UNROUTABLE if pending.returned else fate)

    def _take_back(self, message_id: str | None, route: Route) -> None:
        # Ids are whatever somebody chose: of several of one name, what came back first was sent first.
        for pending in self._pending.values():
            if pending.message_id == message_id and pending.route == route and not pending.returned:
                pending.returned = True
                return

    def _ended(self, why: Channel.Close | None) -> None:
        waiting, self._pending = self._pending, {}
        is_missing = why is not None and why.reply_code == _NOT_FOUND
        for tag, pending in waiting.items():
            if pending.returned:
                fate = Fate.UNROUTABLE
            elif not is_missing:
                fate = Fate.CLOSED
            else:
                # It went missing at one of these, and the broker has ignored what came after that one; which one it
                # was it does not say. So only the newest is certainly not there.
                fate = Fate.NO_EXCHANGE if tag == self._tag else Fate.EXCHANGE_LOST
            pending.ended(fate)
