"""A line in a connection: its own channels live beside those of the client library, also under TLS and in a jam."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import aio_pika
import pytest

from gateway.amqp import broker as brokers
from gateway.amqp.fate import Fate
from gateway.amqp.line import line_of
from gateway.amqp.publish_channel import PublishChannel
from gateway.amqp.receive_channel import ReceiveChannel
from gateway.contract.topology import Route
from gateway.contract.wire import Wire
from gateway.embedded import EmbeddedBroker
from tests.support.certificate import certify
from tests.support.proxy import TO_BROKER, Proxy
from tests.support.waiting import soon

JAM = 400
PIECE = bytes(100_000)


@contextlib.asynccontextmanager
async def _tls(broker: EmbeddedBroker, folder: Path) -> AsyncIterator[str]:
    """Serve the broker over TLS; yields the URL."""
    certify(folder, "broker")
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(folder / "chain.pem", folder / "key.pem")
    parts = urlsplit(broker.url)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(parts.hostname, parts.port)
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    async with await asyncio.start_server(relay, "127.0.0.1", 0, ssl=serving) as server:
        port = server.sockets[0].getsockname()[1]
        yield f"amqps://{parts.username}:{parts.password}@127.0.0.1:{port}{parts.path}?cafile={folder / 'chain.pem'}"


async def test_a_line_works_under_tls(broker: EmbeddedBroker, prefix: str, tmp_path: Path) -> None:
    async with _tls(broker, tmp_path) as url:
        connection = await brokers.connect([url], name=prefix, deadline=20)
        assert PublishChannel.suits(connection)
        control = await connection.channel()
        await control.declare_queue(prefix, exclusive=True)
        sending = await PublishChannel.open(connection)
        receiving = await ReceiveChannel.open(connection, pytest.fail)
        came: list[bytes] = []
        await receiving.consume(prefix, 5, lambda wire, *_: came.append(wire.body))

        fates = [await _publish(sending, Wire(body=body), prefix) for body in (b"small", PIECE)]

        assert fates == [Fate.CONFIRMED] * 2
        await soon(lambda: came == [b"small", PIECE])
        await brokers.close(connection)


async def test_channels_of_both_sorts_work_on_one_connection(broker: EmbeddedBroker, prefix: str) -> None:
    connection = await brokers.connect([broker.url], name=prefix, deadline=20)
    channels = [await PublishChannel.open(connection) for _ in range(3)]
    controls = [await connection.channel() for _ in range(3)]
    await controls[0].declare_queue(prefix, exclusive=True)

    await channels[0].close()
    another = await PublishChannel.open(connection)

    for channel in (*channels[1:], another):
        assert await _publish(channel, Wire(body=b"x"), prefix) is Fate.CONFIRMED
    for control in controls:
        assert (await control.declare_queue(prefix, passive=True)).declaration_result.message_count == 3
    await brokers.close(connection)


async def test_what_does_not_fit_into_a_jam_is_sent_after_it_and_in_order(broker: EmbeddedBroker, prefix: str) -> None:
    async with Proxy(broker.url) as road:
        connection = await brokers.connect([road.url], name=prefix, deadline=20)
        control = await connection.channel()
        queue = await control.declare_queue(prefix, exclusive=True)
        channel = await PublishChannel.open(connection)
        line = line_of(connection)
        assert line is not None
        road.hold(TO_BROKER)
        answers = []
        for number in range(JAM):
            answers.append(asyncio.ensure_future(_publish(channel, Wire(body=PIECE, type=str(number)), prefix)))
            await asyncio.sleep(0)
        await soon(lambda: line.is_full)

        road.release()

        assert set(await asyncio.gather(*answers)) == {Fate.CONFIRMED}
        assert not line.is_full
        first = [await queue.get(no_ack=True) for _ in range(5)]
        assert [message.type for message in first] == ["0", "1", "2", "3", "4"]
        await brokers.close(connection)


async def test_a_connection_of_another_sort_has_no_line(broker: EmbeddedBroker) -> None:
    connection = await aio_pika.connect(broker.url)
    assert line_of(connection) is None
    assert not PublishChannel.suits(connection)
    with pytest.raises(brokers.BrokerLost):
        await PublishChannel.open(connection)
    await connection.close()


async def test_nothing_opens_on_a_connection_that_is_gone(broker: EmbeddedBroker, prefix: str) -> None:
    connection = await brokers.connect([broker.url], name=prefix, deadline=20)
    await brokers.close(connection)
    with pytest.raises(brokers.BrokerLost):
        await PublishChannel.open(connection)


async def _publish(channel: PublishChannel, wire: Wire, queue: str) -> Fate:
    answer: asyncio.Future[Fate] = asyncio.get_running_loop().create_future()
    channel.publish(wire, Route(exchange="", key=queue), answer.set_result)
    return await answer
