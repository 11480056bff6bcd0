"""A producer of another age: it writes Latin-1 where AMQP says UTF-8, which no client library of ours would do."""

import asyncio
from urllib.parse import urlsplit

from pamqp import base, commands, frame, header
from pamqp import body as content

from gateway.contract.topology import Route

_STAND_IN = "QQQQ"
"""What the frames are written with, to be replaced by bytes that are no UTF-8 and as many."""


async def publish_latin1(url: str, route: Route, body: bytes, *, named: str) -> None:
    """Publish `body` with `named`, in Latin-1, as its correlation id; returns when the broker has closed politely."""
    raw = named.encode("latin-1")
    stand_in = (_STAND_IN * len(raw))[: len(raw)]
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)

    def write(channel: int, *frames: base.Frame | header.ContentHeader) -> None:
        for each in frames:
            writer.write(frame.marshal(each, channel).replace(stand_in.encode(), raw))

    writer.write(b"AMQP\x00\x00\x09\x01")
    await _answer(reader)
    write(0, commands.Connection.StartOk(response=f"\0{parts.username}\0{parts.password}", locale="en_US"))
    await _answer(reader)
    write(0, commands.Connection.TuneOk(1, 131072, 0), commands.Connection.Open())
    await _answer(reader)
    write(1, commands.Channel.Open())
    await _answer(reader)
    properties = commands.Basic.Properties(correlation_id=stand_in, delivery_mode=2)
    write(1, commands.Basic.Publish(exchange=route.exchange, routing_key=route.key))
    write(1, header.ContentHeader(body_size=len(body), properties=properties))
    writer.write(frame.marshal(content.ContentBody(body), 1))
    write(1, commands.Channel.Close(200, "", 0, 0))
    await _answer(reader)
    writer.close()
    await writer.wait_closed()


async def _answer(reader: asyncio.StreamReader) -> None:
    start = await reader.readexactly(7)
    await reader.readexactly(int.from_bytes(start[3:7]) + 1)
