"""A connection of the client library on which channels of ours read and write for themselves.

Owns who reads what comes: a protocol in front of the library's own hands frames of our channels to these as they
arrive, without a task or a queue, and everything else, handshakes and heartbeats included, to the library. It leans on
nothing inside the library: transport factories are its public way to say what it speaks over, and one protocol before
another is asyncio's. Where the library has other ideas there is no line, and its own channels are used (`line_of`).
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Self

import aio_pika
from aio_pika.abc import AbstractConnection
from aiormq.connection import TCPTransportFactory, TLSTransportFactory, TransportFactory
from pamqp.frame import marshal
from pamqp.heartbeat import Heartbeat
from yarl import URL

from gateway.amqp import revival
from gateway.amqp.cutter import Cutter, Take

_SIGN_OF_LIFE: Final = marshal(Heartbeat(), 0)
_SIGNS_EVERY: Final = 1.0
_MOST_CHANNELS: Final = 65_535


class Line(asyncio.Protocol):
    """Between a transport and the protocol that was made for it."""

    def __init__(self, transport: asyncio.WriteTransport, behind: asyncio.Protocol) -> None:
        self._transport = transport
        self._behind = behind
        self._loop = asyncio.get_running_loop()
        self._cutter = Cutter(behind.data_received)
        self._sign_due = 0.0
        self._unwritten: list[bytes] = []
        self._writing = False
        self.is_full = False
        """Whether what is written waits for room."""
        self.channel_max = _MOST_CHANNELS
        self.frame_max = 0
        """What the broker takes, 0 where it takes any."""
        self.revives = False
        """Whether the broker moves consumers unheard (`revival`)."""

    @classmethod
    def before(cls, transport: asyncio.WriteTransport) -> Self | None:
        """Put a line in front of a transport's protocol, before anything has come; None where that cannot be."""
        behind = transport.get_protocol()
        if not isinstance(behind, asyncio.Protocol):
            return None
        line = cls(transport, behind)
        transport.set_protocol(line)
        return line

    @property
    def is_lost(self) -> bool:
        """Whether nothing that is written goes anywhere any more."""
        return self._transport.is_closing()

    # What channels ask for

    def join(self, take: Take) -> int:
        """Return the number of a new channel, whose frames are `take`n from now on.

        The library counts from one upwards, so that ours are counted down.
        """
        number = next(number for number in range(self.channel_max, 0, -1) if number not in self._cutter.takers)
        self._cutter.takers[number] = take
        return number

    def leave(self, number: int) -> None:
        """Give a number back, once the broker has closed its channel."""
        self._cutter.takers.pop(number, None)

    def write(self, frames: bytes) -> None:
        """Write whole frames with all others of this turn of the loop, or when there is room for them."""
        self._unwritten.append(frames)
        if not self._writing and not self.is_full:
            self._writing = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._writing = False
        if self.is_full or not self._unwritten:
            return
        frames, self._unwritten = self._unwritten, []
        if not self._transport.is_closing():
            self._transport.writelines(frames)  # uvloop needs them in one piece no more than the system does

    # What the transport says

    def data_received(self, data: bytes) -> None:
        """Cut what came; the library takes a connection on which it sees nothing for a dead one, so it sees some."""
        if self._cutter.feed(data) and self._loop.time() >= self._sign_due and self._cutter.is_between:
            self._sign_due = self._loop.time() + _SIGNS_EVERY
            self._behind.data_received(_SIGN_OF_LIFE)

    def eof_received(self) -> bool | None:
        """Pass it on."""
        return self._behind.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass it on; what was not written never will be."""
        self._unwritten.clear()
        self._behind.connection_lost(exc)

    def pause_writing(self) -> None:
        """Pass it on, and hold back what is to be written."""
        self.is_full = True
        self._behind.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on, and write what was held back."""
        self.is_full = False
        self._behind.resume_writing()
        self._write()


class LineConnection(aio_pika.Connection):
    """A connection of the client library with a line in it."""

    line: Line | None = None

    def __init__(self, url: URL, *arguments: Any, **options: Any) -> None:
        super().__init__(url, *arguments, **options)
        self.kwargs["transport_factory"] = _LineFactory(self._laid)

    def _laid(self, line: Line | None) -> None:
        self.line = line


class _LineFactory(TransportFactory):
    """The library's own factories, and a line in front of what they make."""

    def __init__(self, laid: Callable[[Line | None], None]) -> None:
        self._laid = laid

    async def create(self, url: URL, **options: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect."""
        plain = TLSTransportFactory() if url.scheme == "amqps" else TCPTransportFactory()
        reader, writer = await plain.create(url, **options)
        self._laid(Line.before(writer.transport))
        return reader, writer


def line_of(connection: AbstractConnection) -> Line | None:
    """Return the line in an open connection, None where there is none."""
    line = getattr(connection, "line", None)
    if not isinstance(line, Line) or connection.transport is None:
        return None
    tune = connection.transport.connection.connection_tune
    line.channel_max = tune.channel_max or _MOST_CHANNELS
    line.frame_max = tune.frame_max or 0
    line.revives = revival.is_known_of(connection)
    return line
