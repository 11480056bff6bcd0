"""How much of a queue the station takes before it is stored: many at once while they are small, and few otherwise."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from gateway.amqp import broker as brokers
from gateway.amqp import messages
from gateway.contract.topology import Route
from gateway.contract.wire import Wire
from gateway.embedded import EmbeddedBroker
from gateway.station.inlet import SMALL, Inlet
from gateway.station.sender import NotSent, Sender, Unconfirmed
from tests.support.proxy import Proxy
from tests.support.waiting import soon

PREFETCH, AHEAD = 4, 28
Put = Callable[..., Coroutine[Any, Any, None]]


@pytest.fixture
async def sender(broker: EmbeddedBroker) -> AsyncIterator[Sender]:
    """A way to the broker."""
    made = Sender((broker.url,))
    yield made
    await made.close()


@pytest.fixture
async def put(broker: EmbeddedBroker, sender: Sender, prefix: str) -> AsyncIterator[Put]:
    """Puts messages with bodies of so many bytes into a queue of the test's own, which is called like its prefix."""
    connection = await brokers.connect([broker.url], name=prefix, deadline=20)
    control = await connection.channel()
    await control.declare_queue(prefix, durable=True, arguments={"x-queue-type": "quorum"})

    async def publish(number: int, size: int) -> None:
        wires = [Wire(body=bytes(size), message_id=f"{size}-{one}") for one in range(number)]
        assert set(
            await sender.send_all([(Route(exchange="", key=prefix), wire) for wire in wires], mandatory=True)
        ) == {None}

    yield publish
    await control.queue_delete(prefix)
    await brokers.close(connection)


@pytest.fixture
async def inlet(broker: EmbeddedBroker, put: Put, prefix: str) -> AsyncIterator[Inlet]:
    """An inlet on that queue, open."""
    messages.read_any_properties()
    connection = await brokers.connect([broker.url], name=prefix, deadline=20)
    opened = Inlet(queue=prefix, prefetch=PREFETCH, ahead=AHEAD, ended=asyncio.Event())
    await opened.open(connection)
    yield opened
    opened.end()
    await brokers.close(connection)


def _has_had(inlet: Inlet, number: int) -> bool:
    return inlet.arrived == number


async def _take(inlet: Inlet, number: int) -> list[int]:
    """Take so many, acknowledged batch by batch; return how many each batch had."""
    sizes: list[int] = []
    while sum(sizes) < number:
        batch = await asyncio.wait_for(inlet.batch(), 60)
        sizes.append(len(batch))
        await inlet.settle(batch)
    return sizes


async def test_small_messages_are_read_ahead_and_each_comes_once(inlet: Inlet, put: Put) -> None:
    await put(PREFETCH, 10)
    await soon(lambda: inlet.arrived == PREFETCH, 60)
    await put(200, 10)
    assert max(await _take(inlet, PREFETCH)) <= PREFETCH
    await soon(lambda: inlet.arrived >= PREFETCH + PREFETCH + AHEAD, 60, saying="as many are here as may be")
    await _take(inlet, 200)
    assert inlet.arrived == PREFETCH + 200
    assert inlet.is_empty


async def test_nothing_is_read_ahead_of_large_messages(inlet: Inlet, put: Put) -> None:
    await put(3 * PREFETCH, SMALL + 1)
    for number in (1, 2, 3):
        await soon(partial(_has_had, inlet, number * PREFETCH), 60)
        batch = await inlet.batch()
        assert len(batch) == PREFETCH
        await inlet.settle(batch)


async def test_reading_ahead_ends_with_the_first_large_message_and_loses_none(inlet: Inlet, put: Put) -> None:
    await put(PREFETCH, 10)
    await soon(lambda: inlet.arrived == PREFETCH, 60)
    await _take(inlet, PREFETCH)
    before = inlet.arrived
    await put(1, SMALL + 1)
    await _take(inlet, 1)
    await put(40, SMALL + 1)
    await soon(lambda: inlet.arrived == before + 1 + PREFETCH, 60)
    assert set(await _take(inlet, 40)) <= set(range(1, PREFETCH + 1))
    assert inlet.arrived == before + 1 + 40


async def test_whoever_waits_for_a_batch_hears_of_the_end(inlet: Inlet) -> None:
    waiting = asyncio.create_task(inlet.batch())
    await asyncio.sleep(0)
    inlet.end()
    assert await asyncio.wait_for(waiting, 60) == []


async def test_a_missing_exchange_leaves_in_doubt_what_others_were_sent_after_and_takes_nobody_elses_along(
    sender: Sender, put: Put
) -> None:
    message = (Route(exchange="nobody-has-made-it", key="k"), Wire(body=b"x"))
    failed = await sender.send_all([message, message], mandatory=False)
    assert [type(error) for error in failed] == [Unconfirmed, NotSent]
    await put(1, 10)


async def test_who_meets_a_missing_exchange_again_and_again_leaves_nobody_else_in_doubt(
    sender: Sender, put: Put, prefix: str
) -> None:
    missing = (Route(exchange="nobody-has-made-it", key="k"), Wire(body=b"x"))
    others = [asyncio.create_task(put(1, 10)) for _ in range(100)]
    for _ in range(5):
        (error,) = await sender.send_all([missing], mandatory=False)
        assert isinstance(error, NotSent)
        others += [asyncio.create_task(put(1, 10)) for _ in range(20)]
    await asyncio.gather(*others)


async def test_a_connection_that_is_gone_is_replaced(broker: EmbeddedBroker, prefix: str) -> None:
    async with Proxy(broker.url) as line:
        made = Sender((line.url,))
        message = (Route(exchange="", key=prefix), Wire(body=b"x"))
        assert await made.send_all([message], mandatory=False) == [None]
        line.cut()
        async with asyncio.timeout(60):
            while await made.send_all([message], mandatory=False) != [None]:
                pass
        await made.close()


async def test_what_nobody_wants_is_sent_unless_somebody_must_have_it(sender: Sender) -> None:
    message = (Route(exchange="", key="nobody-has-a-queue-of-this-name"), Wire(body=b"x"))
    assert await sender.send_all([message], mandatory=False) == [None]
    (error,) = await sender.send_all([message], mandatory=True)
    assert isinstance(error, NotSent)
