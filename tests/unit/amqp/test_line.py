"""A line between two ends of a socket: who gets what, and what the client library sees of a busy connection."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
from pamqp.frame import marshal
from pamqp.heartbeat import Heartbeat

from gateway.amqp.cutter import END, HEAD
from gateway.amqp.line import Line

SIGN = marshal(Heartbeat(), 0)
PATIENCE = 20


class _Connected:
    """A line on one end, and a plain socket as the broker's end."""

    def __init__(self, line: Line, library: asyncio.StreamReader, broker: socket.socket) -> None:
        self.line = line
        self.client = library
        self._broker = broker
        self._loop = asyncio.get_running_loop()

    async def say(self, data: bytes) -> None:
        """Have the broker send."""
        await self._loop.sock_sendall(self._broker, data)

    async def heard(self, count: int) -> bytes:
        """Return `count` bytes that the broker received."""
        got = b""
        while len(got) < count:
            got += await asyncio.wait_for(self._loop.sock_recv(self._broker, count - len(got)), PATIENCE)
        return got

    def hang_up(self) -> None:
        """Close the broker's end."""
        self._broker.close()


@pytest.fixture
async def connected() -> AsyncIterator[_Connected]:
    ours, brokers = socket.socketpair()
    brokers.settimeout(0)
    library, writer = await asyncio.open_connection(sock=ours)
    line = Line.before(writer.transport)
    assert line is not None
    yield _Connected(line, library, brokers)
    writer.close()
    brokers.close()


def _frame(channel: int, payload: bytes) -> bytes:
    return HEAD.pack(1, channel, len(payload)) + payload + bytes([END])


async def test_frames_go_to_their_channel_and_the_rest_to_the_library(connected: _Connected) -> None:
    taken: asyncio.Queue[bytes] = asyncio.Queue()
    number = connected.line.join(lambda _, payload: taken.put_nowait(payload))
    for_library = _frame(1, b"answer")

    await connected.say(for_library + _frame(number, b"mine"))

    assert await asyncio.wait_for(taken.get(), PATIENCE) == b"mine"
    assert await asyncio.wait_for(connected.client.readexactly(len(for_library)), PATIENCE) == for_library


async def test_the_library_sees_signs_of_life_of_a_connection_that_is_busy_for_others(connected: _Connected) -> None:
    last = asyncio.Event()
    number = connected.line.join(lambda _, payload: last.set() if payload == b"last" else None)
    started = asyncio.get_running_loop().time()

    for _ in range(500):
        await connected.say(_frame(number, b"x"))
    await connected.say(_frame(number, b"last"))
    await asyncio.wait_for(last.wait(), PATIENCE)

    connected.hang_up()
    seen = await asyncio.wait_for(connected.client.read(), PATIENCE)
    assert seen.startswith(SIGN)
    assert seen == SIGN * (len(seen) // len(SIGN))
    assert len(seen) // len(SIGN) <= 1 + asyncio.get_running_loop().time() - started


async def test_what_is_written_in_one_turn_leaves_together_and_in_order(connected: _Connected) -> None:
    pieces = [_frame(7, bytes([number])) for number in range(50)]
    for piece in pieces:
        connected.line.write(piece)
    assert await connected.heard(len(b"".join(pieces))) == b"".join(pieces)


async def test_numbers_are_counted_down_and_used_again_once_given_back(connected: _Connected) -> None:
    connected.line.channel_max = 10
    first, second = (connected.line.join(lambda *_: None) for _ in range(2))
    assert (first, second) == (10, 9)
    connected.line.leave(first)
    assert connected.line.join(lambda *_: None) == 10


async def test_the_library_hears_of_the_end(connected: _Connected) -> None:
    connected.hang_up()
    assert await asyncio.wait_for(connected.client.read(), PATIENCE) == b""
    connected.line.write(b"into the void")
