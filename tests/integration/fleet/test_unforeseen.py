"""What nobody foresaw, in our own code: an item is set aside the second time, and never after it was settled (P12)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from consumer import metrics
from consumer.fence import StoreFence
from consumer.handler import Run
from consumer.inline import Inline
from consumer.policy import Policies, Policy
from consumer.session import Delivery, Session
from consumer.settings import Settings, load
from consumer.supervisor import Supervisor
from gateway.contract.envelope import Envelope, encode
from gateway.contract.ids import TicketId
from gateway.contract.topology import Lane
from gateway.embedded import EmbeddedBroker
from tests.support.waiting import soon

PATIENCE = 60.0
ran: list[str] = []


async def handle(run: Run) -> None:
    ran.append(run.ticket.id)


class Stumbling(Policies):
    """A fault of ours that one kind of item brings about."""

    def of(self, kind: str) -> Policy:
        if kind == "odd":
            raise ZeroDivisionError("a fault of ours")
        return super().of(kind)


@pytest.fixture(autouse=True)
def _nothing_ran() -> Iterator[None]:
    ran.clear()
    yield
    ran.clear()


@pytest.fixture
def settings(broker: EmbeddedBroker, prefix: str, tmp_path: Path) -> Settings:
    return load(
        {
            "broker_url": broker.url,
            "prefix": prefix,
            "data": tmp_path,
            "handler": f"{__name__}:handle",
            "workers": 1,
            "backoff_base": 0.1,
            "backoff_cap": 0.1,
            "reclaim_margin": 0.1,
            "queue_settle": 0,
        }
    )


@asynccontextmanager
async def _node(settings: Settings) -> AsyncIterator[Supervisor]:
    fence = await StoreFence.open(settings.store)
    executor = Inline.load(settings.handler, slots=1)
    await executor.start()
    node = Supervisor(settings, executor, fence)
    serving = asyncio.create_task(node.run())
    yield node
    node.drain()
    await serving
    await executor.stop()
    await fence.close()


async def _session(settings: Settings) -> Session:
    return await Session.open(settings.broker_urls, settings.topology, settle=0, confirm_deadline=20)


async def _submit(session: Session, settings: Settings, kind: str, ticket: str) -> None:
    envelope = Envelope(ticket=TicketId(ticket), kind=kind, body=b"x", content_type="text/plain")
    await session.publish(settings.topology.to_lane(Lane.WORK), encode(envelope))


async def test_item_over_which_the_node_itself_stumbles_is_quarantined_raw_the_second_time_and_holds_up_nobody(
    settings: Settings,
) -> None:
    session = await _session(settings)
    kept: list[Delivery] = []
    await session.consume(settings.topology.quarantine_queue, 10, kept.append)
    async with _node(settings) as node:
        node.adopt(Stumbling())
        await _submit(session, settings, "odd", "stumbled-over")
        await _submit(session, settings, "good", "neighbour")
        await soon(lambda: kept and "neighbour" in ran, PATIENCE)
    (delivery,) = kept
    assert delivery.wire.headers["lz-reason"] == "malformed"
    assert delivery.wire.correlation_id == "stumbled-over"
    assert "handling it failed twice" in str(delivery.wire.headers["lz-detail"])
    assert delivery.wire.body == b"x"
    assert ran == ["neighbour"]
    await session.close()


async def test_error_after_an_item_was_settled_neither_settles_it_again_nor_quarantines_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session = await _session(settings)
    lost = await _session(settings)
    handed: list[Delivery] = []
    await _submit(session, settings, "good", "redelivered")
    await lost.consume(settings.topology.lane_queue(Lane.WORK), 1, handed.append)
    await soon(lambda: handed, PATIENCE)
    await lost.close()  # unacknowledged: it comes again, marked
    kept: list[Delivery] = []
    await session.consume(settings.topology.quarantine_queue, 10, kept.append)
    stumbles, count = 1, metrics.count

    def stumbling(*facts: object) -> None:
        nonlocal stumbles
        if stumbles:
            stumbles = 0
            raise ZeroDivisionError("a fault of ours")
        count(*facts)  # type: ignore[arg-type]

    monkeypatch.setattr(metrics, "count", stumbling)
    async with _node(settings):
        await soon(lambda: "delivery.bug" in caplog.text, PATIENCE)
        await _submit(session, settings, "good", "neighbour")
        await soon(lambda: "neighbour" in ran, PATIENCE)
    assert not kept
    assert "session.lost" not in caplog.text
    await session.close()
