"""What becomes of a publish of the fleet: confirmed, or the session is over; an alarm of the broker is waited out."""

import asyncio
import logging

import pytest

from consumer.session import Session, SessionLost
from gateway.contract.topology import Lane, Route, Topology
from gateway.contract.wire import Wire
from gateway.embedded import EmbeddedBroker
from tests.support.proxy import TO_CLIENT, Proxy
from tests.support.waiting import soon

MANY = 20


async def _open(url: str, prefix: str, *, confirm_deadline: float) -> tuple[Session, Route]:
    topology = Topology(prefix=prefix)
    session = await Session.open([url], topology, settle=0, confirm_deadline=confirm_deadline)
    return session, topology.to_lane(Lane.WORK)


async def _fates(session: Session, route: Route, count: int) -> list[BaseException | None]:
    publishes = (session.publish(route, Wire(body=b"x")) for _ in range(count))
    return await asyncio.wait_for(asyncio.gather(*publishes, return_exceptions=True), 60)


async def test_confirms_that_do_not_come_in_time_end_the_session_and_every_publish(
    broker: EmbeddedBroker, prefix: str
) -> None:
    async with Proxy(broker.url) as line:
        session, route = await _open(line.url, prefix, confirm_deadline=0.5)
        assert await _fates(session, route, MANY) == [None] * MANY
        line.hold(TO_CLIENT)

        fates = await _fates(session, route, MANY)

        assert {type(fate) for fate in fates} == {SessionLost}
        assert await session.lost == "no confirm in time"
        line.cut()
        await session.close()


async def test_an_alarm_of_the_broker_is_no_overdue_confirm(
    own_broker: EmbeddedBroker, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    session, route = await _open(own_broker.url, prefix, confirm_deadline=0.3)
    await session.publish(route, Wire(body=b"x"))  # an alarm is announced to those who have published
    await asyncio.to_thread(own_broker.ctl, "set_vm_memory_high_watermark", "0.00001")
    waiting = asyncio.create_task(_fates(session, route, MANY))
    await soon(lambda: caplog.text.count("broker.blocked") >= 2, 60)

    assert not session.is_lost
    await asyncio.to_thread(own_broker.ctl, "set_vm_memory_high_watermark", "0.4")

    assert await waiting == [None] * MANY
    await session.close()


async def test_what_finds_no_queue_ends_the_session_unless_nobody_has_to_be_there(
    broker: EmbeddedBroker, prefix: str
) -> None:
    session, _ = await _open(broker.url, prefix, confirm_deadline=20)
    nowhere = Topology(prefix=prefix).to_alerts("nobody")
    await session.publish(nowhere, Wire(body=b"x"), mandatory=False)
    assert not session.is_lost

    with pytest.raises(SessionLost):
        await session.publish(nowhere, Wire(body=b"x"))

    assert (await session.lost).startswith("unroutable")
    await session.close()


async def test_a_message_that_no_frame_can_carry_ends_nothing(broker: EmbeddedBroker, prefix: str) -> None:
    session, route = await _open(broker.url, prefix, confirm_deadline=20)
    with pytest.raises(ValueError, match="no frames can carry"):
        await session.publish(route, Wire(body=b"x", correlation_id="x" * 256))
    await session.publish(route, Wire(body=b"x"))
    await session.close()


async def test_the_end_of_a_session_ends_every_wait_in_it(broker: EmbeddedBroker, prefix: str) -> None:
    async with Proxy(broker.url) as line:
        session, route = await _open(line.url, prefix, confirm_deadline=60)
        line.hold(TO_CLIENT)
        waiting = asyncio.create_task(_fates(session, route, MANY))
        sent = line.forwarded.copy()
        await soon(lambda: line.forwarded != sent)

        session.end("a reason")

        assert [str(fate) for fate in await waiting] == ["a reason"] * MANY
        line.cut()
        await session.close()
