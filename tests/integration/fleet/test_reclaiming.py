"""What becomes of an item that was licensed to a node which died before it began the run."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from consumer.claim import Reclaim
from consumer.endings import vanished
from consumer.fence import Pulse, StoreFence
from consumer.heart import Heart
from consumer.intake import Intake
from consumer.journal import Journal
from consumer.link import Link
from consumer.policy import Policy
from consumer.reclaiming import Reclaiming, Vanished, Waiting
from consumer.session import Session
from consumer.settings import load
from consumer.settlement import Settlement, digest_of
from consumer.verdict import decide, next_message
from gateway.contract.envelope import Envelope, Spent, decode, encode
from gateway.contract.ids import TicketId
from gateway.contract.outcomes import Outcome
from gateway.contract.topology import Lane, Topology
from gateway.embedded import EmbeddedBroker

FIRST, SECOND = "node-1#00c0ffee", "node-2#00c0ffee"


def item(ticket: str) -> Envelope:
    return Envelope(ticket=TicketId(ticket), kind="k", body=b"x", content_type="text/plain")


def after(envelope: Envelope, outcome: Outcome) -> Envelope:
    """Return the item's next message, as the next node gets it."""
    ending = vanished(envelope, outcome, Spent(), "node-1")
    again = decode(encode(next_message(envelope, decide(envelope, ending, Policy(), jitter=0.5))))
    assert isinstance(again, Envelope)
    return again


async def die(store_url: str, life: str, *licensed: Envelope) -> None:
    """Be a node that ends in the middle of one run, and holds licences for others."""
    fence = await StoreFence.open(store_url)
    await fence.beat(life, Lane.WORK, Pulse(beat=1.0, every=5.0))
    running = item(f"running-{life[:6]}")
    for each in (running, *licensed):
        await fence.license(each.ticket, each.stamp, holder=life, now=1.0, digest=digest_of(each))
    fence.begin(running.ticket, running.stamp)
    await fence.close()


@pytest.fixture
async def link(broker: EmbeddedBroker, prefix: str) -> AsyncIterator[Link]:
    topology = Topology(prefix=prefix)
    session = await Session.open([broker.url], topology, settle=0, confirm_deadline=20)
    intake = Intake(session, topology.lane_queue(Lane.WORK), slots=1, on_delivery=lambda _: None)
    made = Link(session, Journal(session, topology), intake)
    yield made
    await made.journal.close()
    await session.close()


async def test_start_that_never_began_is_released_at_once_and_is_judged_where_that_happens_twice_in_a_row(
    link: Link, prefix: str, tmp_path: Path
) -> None:
    settings = load({"handler": "any:handler", "data": tmp_path, "prefix": prefix})
    first = item("t")
    again = after(first, Outcome.RELEASED)
    isolated = after(again, Outcome.LOST)
    await die(settings.store, FIRST, first)
    fence = await StoreFence.open(settings.store)
    settlement = Settlement(settings.topology, fence, node="n", lane=Lane.WORK)
    reclaiming = Reclaiming(settings, fence, settlement, Heart(settings, fence))

    found = await reclaiming.look(link, Reclaim(first, Outcome.LOST), "")
    assert found == Vanished(outcome=Outcome.RELEASED, holder="node-1")
    assert (again.attempt, again.interruptions, again.suspect) == (1, 1, None)

    await die(settings.store, SECOND, again)
    judged = await reclaiming.look(link, Reclaim(again, Outcome.LOST), "")
    assert isinstance(judged, Waiting)
    assert judged.loss.holder == SECOND
    assert (isolated.attempt, isolated.suspect) == (2, "lost")

    await die(settings.store, FIRST, isolated)  # between the two it was charged: it may be bad luck again
    assert isinstance(await reclaiming.look(link, Reclaim(isolated, Outcome.LOST), ""), Vanished)
    await fence.close()
