"""Both ways to publish pass the same exam: ours, which leans on the inside of the client library, and its own."""

import asyncio
import gc

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractConnection
from pamqp.common import FieldTable

from gateway.amqp import broker as brokers
from gateway.amqp.fate import Fate
from gateway.amqp.plain_channel import PlainChannel
from gateway.amqp.publish_channel import PublishChannel
from gateway.contract.topology import Route
from gateway.contract.wire import Wire
from gateway.embedded import EmbeddedBroker
from tests.support.proxy import TO_CLIENT, Proxy
from tests.support.waiting import soon

WAYS = pytest.mark.parametrize("way", [PublishChannel, PlainChannel])
Way = type[PublishChannel] | type[PlainChannel]
MANY = 1000


async def _connect(url: str, name: str) -> AbstractConnection:
    return await brokers.connect([url], name=name, deadline=20)


async def _queue(connection: AbstractConnection, name: str, **arguments: int | str) -> AbstractChannel:
    control = await connection.channel()
    named: FieldTable = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    await control.declare_queue(name, durable=True, arguments=named)
    return control


def _send(channel: PublishChannel | PlainChannel, wire: Wire, route: Route) -> asyncio.Future[Fate]:
    answer: asyncio.Future[Fate] = asyncio.get_running_loop().create_future()
    channel.publish(wire, route, answer.set_result)  # which raises when it is told twice
    return answer


@WAYS
async def test_each_of_many_is_confirmed_once_and_stored_in_its_order(
    broker: EmbeddedBroker, prefix: str, way: Way
) -> None:
    connection = await _connect(broker.url, prefix)
    control = await _queue(connection, prefix, queue_type="quorum")
    channel = await way.open(connection)
    route = Route(exchange="", key=prefix)

    answers = [_send(channel, Wire(body=str(number).encode()), route) for number in range(MANY)]
    fates = set(await asyncio.gather(*answers))

    assert fates == {Fate.CONFIRMED}
    assert channel.pending == 0
    queue = await control.get_queue(prefix)
    stored = []
    async with queue.iterator(no_ack=True) as messages:
        async for message in messages:
            stored.append(int(message.body))
            if len(stored) == MANY:
                break
    assert stored == list(range(MANY))
    await control.queue_delete(prefix)
    await brokers.close(connection)


@WAYS
async def test_what_finds_no_queue_is_unroutable_among_others_that_do(
    broker: EmbeddedBroker, prefix: str, way: Way
) -> None:
    connection = await _connect(broker.url, prefix)
    control = await _queue(connection, prefix)
    channel = await way.open(connection)
    routes = [Route(exchange="", key=prefix if number % 3 else f"{prefix}.nobody") for number in range(99)]

    answers = [_send(channel, Wire(body=b"x", message_id=f"m{at}"), route) for at, route in enumerate(routes)]

    expected = [Fate.CONFIRMED if route.key == prefix else Fate.UNROUTABLE for route in routes]
    assert await asyncio.gather(*answers) == expected
    await control.queue_delete(prefix)
    await brokers.close(connection)


async def test_of_many_that_are_called_the_same_those_are_told_so_that_found_no_queue(
    broker: EmbeddedBroker, prefix: str
) -> None:
    connection = await _connect(broker.url, prefix)
    control = await _queue(connection, prefix, queue_type="quorum")
    channel = await PublishChannel.open(connection)
    keys = [prefix, f"{prefix}.nobody", f"{prefix}.nobody"] * 10

    answers = [_send(channel, Wire(body=b"x", message_id="same"), Route(exchange="", key=key)) for key in keys]

    assert await asyncio.gather(*answers) == [Fate.CONFIRMED, Fate.UNROUTABLE, Fate.UNROUTABLE] * 10
    await control.queue_delete(prefix)
    await brokers.close(connection)


@WAYS
async def test_a_body_of_many_frames_arrives_whole_and_persistent(
    broker: EmbeddedBroker, prefix: str, way: Way
) -> None:
    connection = await _connect(broker.url, prefix)
    control = await _queue(connection, prefix)
    channel = await way.open(connection)
    body = bytes(range(256)) * 3000
    wire = Wire(
        body=body,
        headers={"lz-attempt": 1, "lz-admission": {"bytes": len(body), "exact": True, "client": "é"}},
        message_id="m",
        correlation_id="ticket",
        type="kind",
        content_type="text/plain",
        timestamp=1_700_000_000.9,
    )

    assert await _send(channel, wire, Route(exchange="", key=prefix)) is Fate.CONFIRMED

    got = await (await control.get_queue(prefix)).get(no_ack=True)
    assert got.body == body
    assert got.headers == wire.headers
    assert (got.message_id, got.correlation_id, got.type) == ("m", "ticket", "kind")
    assert got.delivery_mode is aio_pika.DeliveryMode.PERSISTENT
    assert got.timestamp is not None
    assert int(got.timestamp.timestamp()) == 1_700_000_000
    await control.queue_delete(prefix)
    await brokers.close(connection)


@WAYS
async def test_a_missing_exchange_ends_all_that_wait_and_the_channel_but_no_other(
    broker: EmbeddedBroker, prefix: str, way: Way
) -> None:
    connection = await _connect(broker.url, prefix)
    control = await _queue(connection, prefix)
    channel, other = await way.open(connection), await way.open(connection)

    lost = _send(channel, Wire(body=b"x"), Route(exchange=f"{prefix}.none", key="x"))
    kept = _send(other, Wire(body=b"x"), Route(exchange="", key=prefix))

    assert await lost is Fate.NO_EXCHANGE
    assert await kept is Fate.CONFIRMED
    assert channel.is_closed
    assert await _send(channel, Wire(body=b"x"), Route(exchange="", key=prefix)) is Fate.CLOSED
    again = await way.open(connection)
    assert await _send(again, Wire(body=b"x"), Route(exchange="", key=prefix)) is Fate.CONFIRMED
    await control.queue_delete(prefix)
    await brokers.close(connection)


@WAYS
async def test_of_several_that_wait_as_their_exchange_goes_missing_only_the_newest_is_certainly_not_sent(
    broker: EmbeddedBroker, prefix: str, way: Way
) -> None:
    connection = await _connect(broker.url, prefix)
    control = await _queue(connection, prefix)
    channel = await way.open(connection)
    kept, missing = Route(exchange="", key=prefix), Route(exchange=f"{prefix}.none", key="x")

    fates = await asyncio.gather(*(_send(channel, Wire(body=b"x"), route) for route in (kept, missing, kept)))

    # The first is there; the broker may have said so, or have closed the channel before it did.
    assert fates[0] in {Fate.CONFIRMED, Fate.EXCHANGE_LOST}
    assert fates[1:] == [Fate.EXCHANGE_LOST, Fate.NO_EXCHANGE]
    found = await (await (await connection.channel()).get_queue(prefix)).declare()
    assert found.message_count == 1
    await control.queue_delete(prefix)
    await brokers.close(connection)


@WAYS
async def test_a_line_that_is_cut_ends_all_that_wait(broker: EmbeddedBroker, prefix: str, way: Way) -> None:
    async with Proxy(broker.url) as line:
        connection = await _connect(line.url, prefix)
        await _queue(connection, prefix)
        channel = await way.open(connection)
        line.hold(TO_CLIENT)
        answers = [_send(channel, Wire(body=b"x"), Route(exchange="", key=prefix)) for _ in range(50)]
        sent = line.forwarded.copy()
        await soon(lambda: line.forwarded != sent)

        line.cut()

        # Those of the client's own may hang until they are abandoned.
        await brokers.lost(connection)
        channel.abandon()
        assert set(await asyncio.gather(*answers)) == {Fate.CLOSED}
        assert channel.pending == 0
        await brokers.close(connection)
    cleaning = await _connect(broker.url, prefix)
    await (await cleaning.channel()).queue_delete(prefix)
    await brokers.close(cleaning)


@WAYS
async def test_a_connection_keeps_nothing_of_the_channels_it_had(broker: EmbeddedBroker, prefix: str, way: Way) -> None:
    connection = await _connect(broker.url, prefix)
    kept = await way.open(connection)
    for _ in range(20):
        await (await way.open(connection)).close()
    for _ in range(20):
        refused = await way.open(connection)
        assert await _send(refused, Wire(body=b"x"), Route(exchange=f"{prefix}.none", key="x")) is Fate.NO_EXCHANGE

    # Those that are left: the open one, and the last one, which this test and the client's reader may still hold.
    await soon(lambda: _alive(way) <= 3, 20, saying="closed channels are gone")

    assert not kept.is_closed
    await brokers.close(connection)


def _alive(way: Way) -> int:
    gc.collect()
    return sum(isinstance(each, way) for each in gc.get_objects())
