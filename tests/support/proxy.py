"""A TCP line between a program and the broker that tests can hold, freeze, cut and mend.

To cut between a publish and its confirm: `hold(TO_CLIENT)`, let the program publish, wait until the broker has the
message, `cut()`. What was held is lost, as on a real line. To have a consumer that is connected, answered and never
served: `swallow()`.
"""

import asyncio
import contextlib
import socket
import struct
from enum import StrEnum
from typing import Self
from urllib.parse import urlsplit


class Direction(StrEnum):
    """Which way bytes flow."""

    TO_BROKER = "to broker"
    TO_CLIENT = "to client"


TO_BROKER = Direction.TO_BROKER
TO_CLIENT = Direction.TO_CLIENT

_HEAD = struct.Struct(">BHL")
"""Type, channel and size of an AMQP frame; the payload and one more byte follow."""
_METHOD = 1
_FIRST = bytes([_METHOD])
"""A broker's first word is a method, `connection.start`."""
_BASIC_DELIVER = struct.pack(">HH", 60, 60)


class Swallowing:
    """What the broker sends on one connection, without its deliveries as long as `swallows` is set.

    Everything else passes: answers, confirms, heartbeats. Frames are passed on whole, and what is no AMQP as it comes.
    """

    def __init__(self, *, swallows: bool) -> None:
        self.swallows = swallows
        self._is_amqp: bool | None = None
        self._bytes = b""
        self._left: dict[int, int | None] = {}
        """By channel: bytes of a swallowed body that are still to come; None until its header has told."""

    def feed(self, data: bytes) -> bytes:
        """Take what came and return what is passed on."""
        self._is_amqp = self._is_amqp if self._is_amqp is not None else data[:1] == _FIRST
        if not self._is_amqp:
            return data
        self._bytes += data
        passed = b""
        while len(self._bytes) >= _HEAD.size:
            kind, channel, size = _HEAD.unpack_from(self._bytes)
            end = _HEAD.size + size + 1
            if len(self._bytes) < end:
                break
            frame, self._bytes = self._bytes[:end], self._bytes[end:]
            if not self._is_swallowed(kind, channel, frame[_HEAD.size : -1]):
                passed += frame
        return passed

    def _is_swallowed(self, kind: int, channel: int, payload: bytes) -> bool:
        if kind == _METHOD:
            is_delivery = self.swallows and payload[:4] == _BASIC_DELIVER
            if is_delivery:
                self._left[channel] = None
            return is_delivery
        if channel not in self._left:
            return False
        left = self._left[channel]
        left = int.from_bytes(payload[4:12]) if left is None else left - len(payload)
        if left:
            self._left[channel] = left
        else:
            del self._left[channel]
        return True


class Proxy:
    """Listens on a free port of loopback and forwards to `target`, an AMQP URL. Lives in the test's loop."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 5672)
        self._url = parts
        self._gates = {direction: asyncio.Event() for direction in Direction}
        self._links: dict[asyncio.Task[None], tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = {}
        self._server: asyncio.Server | None = None
        self._cut_after: dict[Direction, int] = {}
        self._swallows = False
        self._swallowing: set[Swallowing] = set()
        self.port = 0
        self.refusing = False
        self.latency = 0.0
        """Seconds that each piece waits on its way."""
        self.connections = 0
        self.forwarded = dict.fromkeys(Direction, 0)
        """Bytes passed on so far, by direction; what is held is not counted."""

    @property
    def url(self) -> str:
        """The broker's URL with this line's port in place of its own."""
        return self._url._replace(netloc=f"{self._url.username}:{self._url.password}@127.0.0.1:{self.port}").geturl()

    async def __aenter__(self) -> Self:
        """Listen."""
        self.release()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening and cut what is connected."""
        assert self._server is not None
        self._server.close()
        tasks = list(self._links)
        self.cut()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()

    def hold(self, *directions: Direction) -> None:
        """Keep the bytes of these directions back until `release`; the connections stay up."""
        for direction in directions:
            self._gates[direction].clear()

    def release(self, *directions: Direction) -> None:
        """Let bytes flow again; all directions if none is named."""
        for direction in directions or Direction:
            self._gates[direction].set()

    def freeze(self) -> None:
        """Hold both directions: a half-open line, with nothing that says so."""
        self.hold(*Direction)

    def swallow(self) -> None:
        """Let no delivery through any more, on the connections that there are and on new ones."""
        self._swallows = True
        for connection in self._swallowing:
            connection.swallows = True

    def swallow_no_more(self) -> None:
        """Serve new connections; those that there are stay as they are."""
        self._swallows = False

    def cut(self) -> None:
        """Reset every connection now. New ones are accepted, unless `refusing`."""
        for task, writers in list(self._links.items()):
            for writer in writers:
                _reset(writer)
            task.cancel()
        self._cut_after.clear()

    def cut_after_client_bytes(self, count: int) -> None:
        """Cut once exactly `count` further bytes have gone from the client to the broker."""
        self._cut_after[TO_BROKER] = count

    def cut_after_broker_bytes(self, count: int) -> None:
        """Cut once exactly `count` further bytes have gone from the broker to the client."""
        self._cut_after[TO_CLIENT] = count

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            _reset(writer)
            return
        try:
            broker_reader, broker_writer = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(writer)
            return
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._links[task] = (writer, broker_writer)
        swallowing = Swallowing(swallows=self._swallows)
        self._swallowing.add(swallowing)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, broker_writer, TO_BROKER))
                group.create_task(self._pump(broker_reader, writer, TO_CLIENT, swallowing))
        except* (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            del self._links[task]
            self._swallowing.discard(swallowing)
            for each in (writer, broker_writer):
                each.close()
                with contextlib.suppress(OSError, asyncio.CancelledError):
                    await each.wait_closed()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        direction: Direction,
        swallowing: Swallowing | None = None,
    ) -> None:
        while data := await reader.read(65536):
            await asyncio.sleep(self.latency)
            await self._gates[direction].wait()
            if swallowing is not None:
                data = swallowing.feed(data)
            if direction in self._cut_after:
                data = data[: self._cut_after[direction]]
                self._cut_after[direction] -= len(data)
            writer.write(data)
            await writer.drain()
            self.forwarded[direction] += len(data)
            if self._cut_after.get(direction) == 0:
                self.cut()
                return
        if writer.can_write_eof():
            writer.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    raw: socket.socket = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
