"""Confirm before acknowledge, on lines that are held and cut (P2, P3, P4, P5, P9, P15)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aio_pika.abc import AbstractChannel

from consumer.session import BrokerUnreachable, Session
from gateway.contract.topology import Lane, Topology
from gateway.contract.wire import Wire
from gateway.embedded import EmbeddedBroker
from tests.support.house import House
from tests.support.plain import on_channel, publish
from tests.support.program import Programs
from tests.support.proxy import TO_CLIENT, Proxy
from tests.support.waiting import eventually, soon


@pytest.fixture
def house(broker: EmbeddedBroker, prefix: str, programs: Programs, tmp_path: Path) -> House:
    return House(programs, broker.url, prefix, tmp_path)


@pytest.fixture
async def line(broker: EmbeddedBroker) -> AsyncIterator[Proxy]:
    async with Proxy(broker.url) as proxy:
        yield proxy


def ready(house: House, queue: str) -> int:
    async def count(channel: AbstractChannel) -> int:
        declared = await channel.declare_queue(f"{house.prefix}.{queue}", passive=True)
        return declared.declaration_result.message_count or 0

    return on_channel(house.broker_url, count)


async def test_run_whose_outcome_was_never_confirmed_is_not_acknowledged_and_does_not_run_again(
    house: House, line: Proxy
) -> None:
    await asyncio.to_thread(house.door)
    await asyncio.to_thread(house.station)
    cut_off = await asyncio.to_thread(house.node, workers=1, LAZARETTO_BROKER_URL=line.url)
    ticket = await asyncio.to_thread(house.accepted, "wait.confirm", "held")
    await asyncio.to_thread(house.until, ticket, "running")  # that it started is confirmed: the next word waits for it
    line.hold(TO_CLIENT)  # the broker hears what the node says, and its confirms do not arrive
    await asyncio.to_thread(house.open_gate, "wait.confirm")
    await soon(lambda: asyncio.to_thread(lambda: house.runs(ticket) == ["succeeded"]))
    assert await asyncio.to_thread(ready, house, "work") == 0
    cut_off.kill9()
    line.cut()
    line.release()
    successor = await asyncio.to_thread(house.node, workers=1)
    await asyncio.to_thread(successor.wait_for_log, "run.succeeded ticket=held")  # the decision on record, repeated
    assert await asyncio.to_thread(house.balance, [ticket]) == Counter(done=1)
    assert len(house.starts(ticket)) == 1
    assert house.runs(ticket) == ["succeeded"]


async def test_a_node_takes_one_delivery_at_a_time_until_the_first_is_settled(house: House) -> None:
    await asyncio.to_thread(house.door)
    await asyncio.to_thread(house.station)
    await asyncio.to_thread(house.node, workers=4)
    first = [await asyncio.to_thread(house.accepted, "wait.first", f"first-{n}") for n in range(4)]
    await soon(lambda: house.starts("first-0"))
    assert await asyncio.to_thread(ready, house, "work") == 3
    await asyncio.to_thread(house.open_gate, "wait.first")
    assert await asyncio.to_thread(house.balance, first) == Counter(done=4)
    later = [await asyncio.to_thread(house.accepted, "wait.later", f"later-{n}") for n in range(6)]
    await soon(lambda: len([start for start in house.starts() if start.ticket.startswith("later")]) == 4)
    assert await asyncio.to_thread(ready, house, "work") == 2
    await asyncio.to_thread(house.open_gate, "wait.later")
    assert await asyncio.to_thread(house.balance, later) == Counter(done=6)


async def test_connection_that_goes_while_a_session_opens_is_an_unreachable_broker_wherever_it_is_cut(
    line: Proxy, prefix: str
) -> None:
    topology = Topology(prefix=prefix)
    whole = await Session.open([line.url], topology, settle=0, confirm_deadline=5)
    await whole.close()
    for offset in range(100, 4000, 130):
        line.cut_after_client_bytes(offset)
        try:
            session = await Session.open([line.url], topology, settle=0, confirm_deadline=5)
        except BrokerUnreachable:
            continue
        await session.close()
        line.cut()


def test_stranger_without_a_content_type_is_examined_in_each_attempt_and_survives_its_retries(house: House) -> None:
    house.open()
    route = Topology(prefix=house.prefix, delay_unit=0.05).to_lane(Lane.WORK)
    publish(house.broker_url, route, Wire(body=b"plain words", correlation_id="untyped", type="fail"))
    start = eventually(lambda: [start for start in house.starts() if start.ticket.startswith("untyped~")])[0]
    house.until(start.ticket, "quarantined")
    assert house.runs(start.ticket) == ["failed"] * 3


def test_node_that_is_told_to_stop_before_it_has_started_stops_cleanly(house: House) -> None:
    node = house.fleet()
    node.wait_for_log("mold.loaded|consumer.started")
    assert node.terminate() == 0


def test_node_that_is_told_to_stop_right_after_a_loss_stops_cleanly(house: House) -> None:
    node = house.fleet()
    node.wait_for_log("consumer.consuming")
    on_channel(house.broker_url, lambda channel: channel.queue_delete(f"{house.prefix}.work"))
    node.wait_for_log("session.lost")
    assert node.terminate() == 0
