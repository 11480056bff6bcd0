"""A channel that gave way to another one is closed once nothing waits on it, whatever became of the publishes."""

import asyncio

from gateway.amqp import broker as brokers
from gateway.amqp.confirm_channel import ConfirmChannel
from gateway.amqp.fate import Fate
from gateway.contract.topology import Route
from gateway.contract.wire import Wire
from gateway.embedded import EmbeddedBroker
from tests.support.proxy import TO_CLIENT, Proxy
from tests.support.waiting import soon

STREAK = 5


async def test_a_publish_that_was_cancelled_does_not_keep_a_retired_channel_open(
    broker: EmbeddedBroker, prefix: str
) -> None:
    route = Route(exchange="", key=prefix)
    async with Proxy(broker.url) as line:
        connection = await brokers.connect([line.url], name=prefix, deadline=10)
        control = await connection.channel()
        await control.declare_queue(
            prefix, exclusive=True, arguments={"x-max-length": 0, "x-overflow": "reject-publish"}
        )
        channel = ConfirmChannel(connection)
        await channel.ready()
        fates = [await channel.ask(Wire(body=b""), route) for _ in range(STREAK - 1)]
        assert fates == [Fate.NACKED] * (STREAK - 1)
        line.hold(TO_CLIENT)
        left, last = (asyncio.create_task(channel.ask(Wire(body=b""), route)) for _ in range(2))
        sent = line.forwarded.copy()
        await soon(lambda: line.forwarded != sent)

        left.cancel()
        await asyncio.wait({left})
        line.release()

        assert left.cancelled()
        assert await last is Fate.NACKED
        await soon(lambda: _has_channels(broker, prefix, 1), 90, saying="the retired channel is closed")
        await brokers.close(connection)


async def _has_channels(broker: EmbeddedBroker, name: str, count: int) -> bool:
    # In a thread, because the line to the broker runs in this loop.
    listed = await asyncio.to_thread(broker.ctl, "list_connections", "channels", "client_properties")
    return next(int(line.split()[0]) for line in listed.splitlines() if name in line) == count


async def test_whoever_publishes_on_what_was_given_up_while_it_opened_anew_hears_of_it(
    broker: EmbeddedBroker, prefix: str
) -> None:
    connection = await brokers.connect([broker.url], name=prefix, deadline=20)
    channel, route = ConfirmChannel(connection), Route(exchange="", key=prefix)
    opening = asyncio.create_task(channel.ask(Wire(body=b"before"), route))
    await asyncio.sleep(0)

    channel.abandon()
    later = [await asyncio.wait_for(channel.ask(Wire(body=b"after"), route), 20) for _ in range(2)]

    assert [await opening, *later] == [Fate.CLOSED] * 3
    await brokers.close(connection)
