"""How an intake ends its consumers: nothing is on its way to them then, or it would count as lost (P5, P15)."""

import asyncio

import pytest

from consumer import session as sessions
from consumer.intake import Intake
from consumer.session import Delivery, Session, SessionLost
from gateway.contract.topology import Lane, Topology
from gateway.contract.wire import Wire
from gateway.embedded import EmbeddedBroker
from tests.support.proxy import TO_CLIENT, Proxy
from tests.support.waiting import soon

SLOTS = 2


async def test_acknowledgements_that_waited_for_one_consumers_end_wait_for_those_that_follow_upon_it(
    broker: EmbeddedBroker, prefix: str
) -> None:
    topology, came = Topology(prefix=prefix), list[Delivery]()
    session = await Session.open([broker.url], topology, settle=0, confirm_deadline=20)
    bodies = [b"%d" % number for number in range(4 * SLOTS)]
    for body in bodies:
        await session.publish(topology.to_lane(Lane.WORK), Wire(body=body))
    queue = topology.lane_queue(Lane.WORK)
    intake = Intake(session, queue, slots=SLOTS, on_delivery=came.append)
    await intake.open()
    await intake.widen(SLOTS)
    await soon(lambda: len(came) == 2 * SLOTS)

    narrowing = asyncio.create_task(intake.widen(0))
    await asyncio.sleep(0)
    settled = [asyncio.create_task(intake.acknowledge(delivery)) for delivery in came]
    pausing = asyncio.create_task(intake.pause())  # as a drain does
    await asyncio.gather(narrowing, pausing, *settled)
    await session.close()

    again, left = await Session.open([broker.url], topology, settle=0, confirm_deadline=20), list[Delivery]()
    await again.consume(queue, 4 * SLOTS, left.append)
    await soon(lambda: len(left) == 2 * SLOTS)
    assert [delivery.wire.body for delivery in (*came, *left)] == bodies
    assert not any(delivery.redelivered for delivery in left)
    await again.close()


async def test_intake_that_steps_aside_while_nothing_is_here_goes_on_taking_deliveries(
    broker: EmbeddedBroker, prefix: str
) -> None:
    topology, came = Topology(prefix=prefix), list[Delivery]()
    session = await Session.open([broker.url], topology, settle=0, confirm_deadline=20)
    intake = Intake(session, topology.lane_queue(Lane.WORK), slots=SLOTS, on_delivery=came.append)
    await intake.open()
    await intake.widen(0)
    await intake.step_aside()
    assert intake.is_open
    for number in range(SLOTS):
        await session.publish(topology.to_lane(Lane.WORK), Wire(body=b"%d" % number))
    await soon(lambda: len(came) == SLOTS)
    await intake.step_aside()
    for delivery in came:
        await intake.acknowledge(delivery)
    await intake.widen(0)
    await session.publish(topology.to_lane(Lane.WORK), Wire(body=b"last"))
    await soon(lambda: len(came) == SLOTS + 1)
    await session.close()


async def test_broker_that_is_alive_and_does_not_answer_a_question_about_consumers_is_left(
    broker: EmbeddedBroker, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "ANSWER_SECONDS", 0.5)  # well before its heartbeats are missed
    topology = Topology(prefix=prefix)
    async with Proxy(broker.url) as line:
        session = await Session.open([line.url], topology, settle=0, confirm_deadline=20)
        line.hold(TO_CLIENT)
        with pytest.raises(SessionLost, match="no answer from the broker"):
            await session.consume(topology.lane_queue(Lane.WORK), SLOTS, lambda _: None)
        assert await session.lost == "TimeoutError: no answer from the broker"
        line.release()
        await session.close()
