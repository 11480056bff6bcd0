"""A channel that gave way to another one is closed once nothing waits on it, whatever became of the publishes."""

import asyncio

from gateway import broker as brokers
from gateway.confirm_channel import ConfirmChannel
from gateway.contract.topology import Route
from gateway.contract.wire import Wire
from gateway.embedded import EmbeddedBroker
from gateway.fate import Fate
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
        await soon(lambda: _channels(broker, prefix) == 1, saying="the retired channel is closed")
        await brokers.close(connection)


def _channels(broker: EmbeddedBroker, name: str) -> int:
    listed = broker.ctl("list_connections", "channels", "client_properties")
    return next(int(line.split()[0]) for line in listed.splitlines() if name in line)
