"""A producer of another age or with bad intent: its properties are bytes that no client library of ours would write."""

import asyncio
import struct
from urllib.parse import urlsplit

from pamqp import base, commands, frame
from pamqp import body as content

from gateway.contract.topology import Route

_HEADER_FRAME = 2
_FRAME_END = b"\xce"


async def publish_latin1(url: str, route: Route, body: bytes, *, named: str) -> None:
    """Publish `body` with `named`, in Latin-1, as its correlation id; returns when the broker has closed politely."""
    raw = named.encode("latin-1")
    await publish_raw(url, route, body, properties=struct.pack(">HB", 0x0400, len(raw)) + raw)


async def publish_raw(url: str, route: Route, body: bytes, *, properties: bytes) -> None:
    """Publish `body` with `properties` as they are: flags, then the values that they announce (AMQP 0-9-1, 4.2.6.1)."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)

    def write(channel: int, *frames: base.Frame) -> None:
        for each in frames:
            writer.write(frame.marshal(each, channel))

    writer.write(b"AMQP\x00\x00\x09\x01")
    await _answer(reader)
    write(0, commands.Connection.StartOk(response=f"\0{parts.username}\0{parts.password}", locale="en_US"))
    await _answer(reader)
    write(0, commands.Connection.TuneOk(1, 131072, 0), commands.Connection.Open())
    await _answer(reader)
    write(1, commands.Channel.Open())
    await _answer(reader)
    write(1, commands.Basic.Publish(exchange=route.exchange, routing_key=route.key))
    head = struct.pack(">HHQ", commands.Basic.frame_id, 0, len(body)) + properties
    writer.write(struct.pack(">BHI", _HEADER_FRAME, 1, len(head)) + head + _FRAME_END)
    writer.write(frame.marshal(content.ContentBody(body), 1))
    write(1, commands.Channel.Close(200, "", 0, 0))
    await _answer(reader)
    writer.close()
    await writer.wait_closed()


def nested_headers(depth: int) -> bytes:
    """Return properties with nothing but header tables in header tables."""
    table = b""
    for _ in range(depth):
        table = b"\x01nF" + struct.pack(">I", len(table)) + table
    return struct.pack(">HI", 0x2000, len(table)) + table


async def _answer(reader: asyncio.StreamReader) -> None:
    start = await reader.readexactly(7)
    await reader.readexactly(int.from_bytes(start[3:7]) + 1)
