"""A TCP line between a program and the broker that tests can hold, freeze, cut and mend.

To cut between a publish and its confirm: `hold(TO_CLIENT)`, let the program publish, wait until the broker has the
message, `cut()`. What was held is lost, as on a real line.
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


class Proxy:
    """Listens on a free port of loopback and forwards to `target`, an AMQP URL. Lives in the test's loop."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 5672)
        self._url = parts
        self._gates = {direction: asyncio.Event() for direction in Direction}
        self._links: dict[asyncio.Task[None], tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = {}
        self._server: asyncio.Server | None = None
        self._cut_after: int | None = None
        self.port = 0
        self.refusing = False
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

    def cut(self) -> None:
        """Reset every connection now. New ones are accepted, unless `refusing`."""
        for task, writers in list(self._links.items()):
            for writer in writers:
                _reset(writer)
            task.cancel()
        self._cut_after = None

    def cut_after_client_bytes(self, count: int) -> None:
        """Cut once exactly `count` further bytes have gone from the client to the broker."""
        self._cut_after = count

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
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, broker_writer, TO_BROKER))
                group.create_task(self._pump(broker_reader, writer, TO_CLIENT))
        except* (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            del self._links[task]
            for each in (writer, broker_writer):
                each.close()
                with contextlib.suppress(OSError, asyncio.CancelledError):
                    await each.wait_closed()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Direction) -> None:
        while data := await reader.read(65536):
            await self._gates[direction].wait()
            if direction is TO_BROKER and self._cut_after is not None:
                data = data[: self._cut_after]
                self._cut_after -= len(data)
            writer.write(data)
            await writer.drain()
            self.forwarded[direction] += len(data)
            if direction is TO_BROKER and self._cut_after == 0:
                self.cut()
                return
        if writer.can_write_eof():
            writer.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    raw: socket.socket = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
