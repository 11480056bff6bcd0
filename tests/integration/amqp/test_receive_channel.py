"""Both ways to receive pass the same exam: ours, which takes its frames off the line, and the client library's own."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from aio_pika.abc import AbstractChannel, AbstractConnection

from gateway.amqp import broker as brokers
from gateway.amqp import messages
from gateway.amqp.confirm_channel import ConfirmChannel
from gateway.amqp.fate import Fate
from gateway.amqp.plain_receive_channel import PlainReceiveChannel
from gateway.amqp.receive_channel import ReceiveChannel
from gateway.contract import unreadable
from gateway.contract.topology import Route
from gateway.contract.wire import Wire
from gateway.embedded import EmbeddedBroker
from tests.support.proxy import Proxy
from tests.support.remaking import QUORUM, remake
from tests.support.stranger import nested_headers, publish_raw
from tests.support.waiting import soon

Channel = ReceiveChannel | PlainReceiveChannel
Way = type[ReceiveChannel] | type[PlainReceiveChannel]
WAYS = pytest.mark.parametrize("way", [ReceiveChannel, PlainReceiveChannel])
MANY = 5_000
"""Several times as many as a client with callbacks was seen to stop after, at this window."""
WINDOW = 1024
PATIENCE = 60


@dataclass(slots=True)
class Lane:
    """A queue, who puts messages into it, and what came out of it."""

    queue: str
    connection: AbstractConnection
    control: AbstractChannel
    out: ConfirmChannel
    came: list[tuple[Wire, int, bool]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    async def put(self, *wires: Wire) -> None:
        """Publish, confirmed."""
        route = Route(exchange="", key=self.queue)
        assert set(await asyncio.gather(*(self.out.ask(wire, route) for wire in wires))) == {Fate.CONFIRMED}

    def take(self, wire: Wire, tag: int, redelivered: bool) -> None:  # noqa: FBT001  as channels call it
        """Keep what comes."""
        self.came.append((wire, tag, redelivered))

    async def until_came(self, count: int) -> None:
        """Wait for `count` messages."""
        await soon(lambda: len(self.came) >= count, PATIENCE, saying=f"{count} messages have come")


@pytest.fixture
async def lane(broker: EmbeddedBroker, prefix: str) -> AsyncIterator[Lane]:
    """An empty queue of the test's own."""
    messages.read_any_properties()
    connection = await brokers.connect([broker.url], name=prefix, deadline=20)
    control = await connection.channel()
    await control.declare_queue(prefix, durable=True, arguments={"x-queue-type": "quorum"})
    out = ConfirmChannel(connection)
    await out.ready()
    yield Lane(prefix, connection, control, out)
    await control.queue_delete(prefix)
    await brokers.close(connection)


async def _receiving(way: Way, url: str, lane: Lane) -> tuple[AbstractConnection, Channel]:
    connection = await brokers.connect([url], name=lane.queue, deadline=20)
    return connection, await way.open(connection, lane.ended.append)


@WAYS
async def test_what_was_sent_comes_whole_and_in_order_and_goes_when_it_is_acknowledged(
    broker: EmbeddedBroker, lane: Lane, way: Way
) -> None:
    bodies = [b"", b"x", bytes(range(256)) * 1000, b"", b"last"]  # of no, one and several frames
    sent = [
        Wire(
            body=body,
            headers={"lz-attempt": 1, "lz-admission": {"bytes": len(body), "exact": True, "client": "é"}},
            message_id=f"m{at}",
            correlation_id="ticket",
            type="kind",
            content_type="text/plain",
            timestamp=1_700_000_000.0,
            app_id="here",
        )
        for at, body in enumerate(bodies)
    ]
    await lane.put(*sent)
    connection, channel = await _receiving(way, broker.url, lane)

    await channel.consume(lane.queue, 10, lane.take)
    await lane.until_came(len(sent))

    assert [wire for wire, _, _ in lane.came] == sent
    assert not any(redelivered for _, _, redelivered in lane.came)
    assert not lane.ended
    for _, tag, _ in lane.came:
        channel.ack(tag)
    await channel.close()
    await brokers.close(connection)
    assert (await lane.control.declare_queue(lane.queue, passive=True)).declaration_result.message_count == 0


@WAYS
async def test_what_is_not_acknowledged_comes_again_marked_as_redelivered(
    broker: EmbeddedBroker, lane: Lane, way: Way
) -> None:
    await lane.put(Wire(body=b"kept"), Wire(body=b"settled"))
    connection, channel = await _receiving(way, broker.url, lane)
    await channel.consume(lane.queue, 10, lane.take)
    await lane.until_came(2)
    channel.ack(lane.came[1][1])
    await channel.close()
    await brokers.close(connection)

    again, channel = await _receiving(way, broker.url, lane)
    await channel.consume(lane.queue, 10, lane.take)
    await lane.until_came(3)

    assert [(wire.body, redelivered) for wire, _, redelivered in lane.came[2:]] == [(b"kept", True)]
    await brokers.close(again)


@WAYS
async def test_a_prefetch_holds_for_its_consumer_and_a_cancelled_one_gets_nothing_more(
    broker: EmbeddedBroker, lane: Lane, way: Way
) -> None:
    await lane.put(*(Wire(body=b"%d" % number) for number in range(5)))
    connection, channel = await _receiving(way, broker.url, lane)
    first = await channel.consume(lane.queue, 1, lane.take)
    second = await channel.consume(lane.queue, 2, lane.take)
    await lane.until_came(3)

    await channel.cancel(first)
    await channel.cancel(second)
    for _, tag, _ in list(lane.came):
        channel.ack(tag)
    await soon(lambda: _is_left(lane, 2), PATIENCE, saying="what came is acknowledged, and nothing more has come")

    assert [wire.body for wire, _, _ in lane.came] == [b"0", b"1", b"2"]
    await brokers.close(connection)


async def _is_left(lane: Lane, ready: int) -> bool:
    return (await lane.control.declare_queue(lane.queue, passive=True)).declaration_result.message_count == ready


@WAYS
async def test_a_deleted_queue_ends_the_consumer_with_a_word(broker: EmbeddedBroker, lane: Lane, way: Way) -> None:
    connection, channel = await _receiving(way, broker.url, lane)
    tag = await channel.consume(lane.queue, 1, lane.take)

    await lane.control.queue_delete(lane.queue)

    await soon(lambda: lane.ended, PATIENCE)
    assert lane.ended == [f"the broker cancelled the consumer {tag}"]
    await brokers.close(connection)


@WAYS
async def test_a_queue_that_is_made_again_at_once_ends_its_consumers_with_a_word(
    broker: EmbeddedBroker, lane: Lane, way: Way
) -> None:
    for _ in range(5):
        connection, channel = await _receiving(way, broker.url, lane)
        tags = [await channel.consume(lane.queue, prefetch, lane.take) for prefetch in (1, 3)]

        await remake(broker.url, lane.queue, QUORUM)

        await soon(lambda: len(lane.ended) == 2, PATIENCE, saying="both consumers have heard of it")
        assert set(lane.ended) == {f"the broker cancelled the consumer {tag}" for tag in tags}
        await lane.put(Wire(body=b"kept"))
        await channel.consume(lane.queue, 1, lane.take)
        await lane.until_came(1)
        assert not lane.came[0][2], "it was never handed to a consumer that is no more"
        channel.ack(lane.came[0][1])
        await channel.close()
        await brokers.close(connection)
        lane.ended.clear()
        lane.came.clear()


@WAYS
async def test_a_missing_queue_ends_the_channel_with_the_brokers_words_and_no_other(
    broker: EmbeddedBroker, lane: Lane, way: Way
) -> None:
    connection, channel = await _receiving(way, broker.url, lane)
    other = await way.open(connection, lane.ended.append)

    with pytest.raises(brokers.LOST):
        await channel.consume(f"{lane.queue}.none", 1, lane.take)

    await soon(lambda: lane.ended, PATIENCE)
    assert "no queue" in lane.ended[0]
    assert channel.is_closed
    await lane.put(Wire(body=b"x"))
    await other.consume(lane.queue, 1, lane.take)
    await lane.until_came(1)
    await brokers.close(connection)


async def test_a_channel_that_both_sides_close_at_once_takes_none_along_that_is_opened_next(
    broker: EmbeddedBroker, lane: Lane, caplog: pytest.LogCaptureFixture
) -> None:
    connection, channel = await _receiving(ReceiveChannel, broker.url, lane)
    for _ in range(10):
        refused = asyncio.create_task(channel.consume(f"{lane.queue}.none", 1, lane.take))
        closed = asyncio.create_task(channel.close())
        await asyncio.wait({refused, closed})
        with pytest.raises(brokers.LOST):
            refused.result()
        channel = await ReceiveChannel.open(connection, lane.ended.append)
        lane.ended.clear()
        await lane.put(Wire(body=b"x"))
        await channel.consume(lane.queue, 1, lane.take)
        await lane.until_came(1)
        assert not channel.is_closed
        channel.ack(lane.came.pop()[1])
    assert not lane.ended
    assert "closed channel" not in caplog.text, "the library has seen an answer that was not for it"
    await brokers.close(connection)


@WAYS
async def test_what_is_not_taken_is_said_since_nobody_will_acknowledge_it_and_takes_no_other_along(
    broker: EmbeddedBroker, lane: Lane, way: Way
) -> None:
    def take(wire: Wire, tag: int, redelivered: bool) -> None:  # noqa: FBT001  as channels call it
        lane.take(wire, tag, redelivered)
        if wire.body == b"bad":
            raise RuntimeError("a bug of whoever takes")

    await lane.put(Wire(body=b"bad"), Wire(body=b"good"))
    connection, channel = await _receiving(way, broker.url, lane)
    await channel.consume(lane.queue, 10, take)

    await lane.until_came(2)

    assert not channel.is_closed
    assert lane.ended == ["a delivery was not taken: RuntimeError: a bug of whoever takes"]
    await brokers.close(connection)


@WAYS
@pytest.mark.parametrize(
    "raw",
    [b"\x80\x00\x03\xff\xfe\xfd", nested_headers(unreadable.MAX_DEPTH + 8)],
    ids=["text-of-odd-bytes", "tables-too-deep"],
)
async def test_properties_that_nobody_can_read_stop_nothing(
    broker: EmbeddedBroker, lane: Lane, way: Way, raw: bytes
) -> None:
    await publish_raw(broker.url, Route(exchange="", key=lane.queue), b"body", properties=raw)
    await soon(lambda: _is_left(lane, 1), PATIENCE)
    await lane.put(Wire(body=b"next"))
    connection, channel = await _receiving(way, broker.url, lane)
    await channel.consume(lane.queue, 10, lane.take)

    await lane.until_came(2)

    assert [wire.body for wire, _, _ in lane.came] == [b"body", b"next"]
    assert unreadable.MARK in lane.came[0][0].headers or raw[0] == 0x80
    await brokers.close(connection)


@WAYS
async def test_a_line_that_is_cut_in_the_middle_of_a_body_hands_over_nothing_of_it(
    broker: EmbeddedBroker, lane: Lane, way: Way
) -> None:
    async with Proxy(broker.url) as line:
        connection, channel = await _receiving(way, line.url, lane)
        await channel.consume(lane.queue, 10, lane.take)
        line.cut_after_broker_bytes(200_000)
        await lane.put(Wire(body=bytes(1_000_000)))

        await brokers.lost(connection)

        assert channel.is_closed
        assert not lane.came
        await brokers.close(connection)
    again, channel = await _receiving(way, broker.url, lane)
    await channel.consume(lane.queue, 10, lane.take)
    await lane.until_came(1)
    assert [(wire.body, redelivered) for wire, _, redelivered in lane.came] == [(bytes(1_000_000), True)]
    await brokers.close(again)


async def test_thousands_of_small_messages_in_a_wide_window_come_in_order_and_none_is_stuck(
    broker: EmbeddedBroker, lane: Lane
) -> None:
    for _ in range(MANY // 500):
        await lane.put(*(Wire(body=b"x") for _ in range(500)))
    connection, channel = await _receiving(ReceiveChannel, broker.url, lane)
    done = asyncio.Event()
    tags = 0

    def take(_: Wire, tag: int, redelivered: bool) -> None:  # noqa: FBT001  as channels call it
        nonlocal tags
        tags += 1
        assert (tag, redelivered) == (tags, False)
        channel.ack(tag)
        if tags == MANY:
            done.set()

    await channel.consume(lane.queue, WINDOW, take)
    await asyncio.wait_for(done.wait(), PATIENCE)

    await channel.close()
    await soon(
        lambda: _is_left(lane, 0),
        saying="what was acknowledged is gone; a quorum queue counts what its leader has applied",
    )
    await brokers.close(connection)
