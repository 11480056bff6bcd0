"""The delay ladder on a real broker: no head-of-line blocking, nothing early, nothing lost (C4; D36)."""

import asyncio
import random
import time
from collections.abc import AsyncIterator

import pytest

from consumer.session import Delivery, Session
from gateway.contract.topology import Lane, Topology
from gateway.contract.wire import Wire
from gateway.embedded import EmbeddedBroker
from tests.support.waiting import soon


@pytest.fixture
def topology(prefix: str) -> Topology:
    return Topology(prefix=prefix, delay_unit=0.05)


@pytest.fixture
async def session(broker: EmbeddedBroker, topology: Topology) -> AsyncIterator[Session]:
    opened = await Session.open([broker.url], topology, settle=0, confirm_deadline=30)
    yield opened
    await opened.close()


async def consume(session: Session, topology: Topology, lane: Lane) -> list[tuple[str, float]]:
    arrived: list[tuple[str, float]] = []

    def take(delivery: Delivery) -> None:
        assert not delivery.redelivered
        arrived.append((delivery.wire.body.decode(), time.monotonic()))

    await session.consume(topology.lane_queue(lane), 1000, take)
    return arrived


async def test_a_long_wait_does_not_hold_up_a_short_one(session: Session, topology: Topology) -> None:
    arrived = await consume(session, topology, Lane.WORK)
    for seconds in (2.0, 1.0, 0.1):
        await session.publish(topology.to_delay(Lane.WORK, seconds), Wire(body=str(seconds).encode(), message_id="m"))
    await soon(lambda: len(arrived) == 3)
    assert [name for name, _ in arrived] == ["0.1", "1.0", "2.0"]


async def test_nothing_arrives_before_its_time_and_nothing_is_lost(session: Session, topology: Topology) -> None:
    arrived = await consume(session, topology, Lane.SUSPECTS)
    dice = random.Random(9417)
    delays = [dice.uniform(0.0, 3.0) for _ in range(150)]
    sent: dict[str, float] = {}

    async def put(number: int, seconds: float) -> None:
        sent[str(number)] = time.monotonic() + seconds
        await session.publish(
            topology.to_delay(Lane.SUSPECTS, seconds), Wire(body=str(number).encode(), message_id=str(number))
        )

    await asyncio.gather(*(put(number, seconds) for number, seconds in enumerate(delays)))
    await soon(lambda: len(arrived) == len(delays))
    assert sorted(name for name, _ in arrived) == sorted(sent)
    assert all(at >= sent[name] - 0.02 for name, at in arrived)
