"""How a node's events reach the journal queue: in batches, each confirmed before anybody who waits goes on."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest
from aio_pika.abc import AbstractChannel

from consumer.journal import Journal
from consumer.session import Session, SessionLost
from gateway.contract import journal as contract
from gateway.contract.journal import Event, EventName, Verdict
from gateway.contract.outcomes import Outcome, Stamp
from gateway.contract.topology import Topology
from gateway.embedded import EmbeddedBroker
from tests.support.plain import on_channel
from tests.support.waiting import soon

FIRST = Stamp(generation=0, attempt=1, interruptions=0)


def told(ticket: str, name: EventName) -> Event:
    data = {} if name is EventName.STARTED else {"outcome": Outcome.SUCCEEDED, "verdict": Verdict.ACK}
    return Event(event=name, at=time.time(), ticket=ticket, kind="good", node="n", stamp=FIRST, data=data)


class Line:
    """A journal, its session, and what is in the broker of it."""

    def __init__(self, url: str, session: Session, topology: Topology) -> None:
        self._url, self._queue = url, topology.journal_queue
        self.session = session
        self.journal = Journal(session, topology)

    def begin(self, ticket: str) -> None:
        self.journal.note_start(ticket, FIRST, lambda: told(ticket, EventName.STARTED))

    async def events(self) -> list[tuple[EventName, str]]:
        async def take(channel: AbstractChannel) -> list[bytes]:
            queue = await channel.get_queue(self._queue, ensure=False)
            bodies = []
            while (message := await queue.get(no_ack=True, fail=False)) is not None:
                bodies.append(message.body)
            return bodies

        bodies = await asyncio.to_thread(on_channel, self._url, take)
        return [(item.event, item.ticket) for body in bodies for item in contract.decode(body)]


@pytest.fixture
async def line(broker: EmbeddedBroker, prefix: str) -> AsyncIterator[Line]:
    topology = Topology(prefix=prefix)
    session = await Session.open([broker.url], topology, settle=0, confirm_deadline=10)
    async with contextlib.AsyncExitStack() as ends:
        ends.push_async_callback(session.close)
        opened = Line(broker.url, session, topology)
        ends.push_async_callback(opened.journal.close)
        yield opened


async def test_what_is_written_is_with_the_broker_when_its_writer_goes_on(line: Line) -> None:
    await line.journal.write(told("a", EventName.FINISHED), told("a", EventName.DISCARDED))
    assert await line.events() == [(EventName.FINISHED, "a"), (EventName.DISCARDED, "a")]


async def test_start_whose_ending_overtakes_it_is_not_told_and_any_other_is(line: Line) -> None:
    line.begin("short")
    line.begin("long")
    await line.journal.write(told("short", EventName.FINISHED))
    found: list[tuple[EventName, str]] = []

    async def both() -> bool:
        found.extend(await line.events())
        return len(found) > 1

    await soon(both)
    await line.journal.flush()
    assert [*found, *await line.events()] == [(EventName.FINISHED, "short"), (EventName.STARTED, "long")]


async def test_flush_ends_when_all_that_was_noted_is_with_the_broker(line: Line) -> None:
    line.journal.note(told("a", EventName.RELEASED))
    await asyncio.sleep(0)  # on its way
    line.begin("b")
    await line.journal.flush()
    assert await line.events() == [(EventName.RELEASED, "a"), (EventName.STARTED, "b")]
    await line.journal.flush()


async def test_whoever_is_cancelled_while_he_waits_takes_nobody_along(line: Line) -> None:
    waits = [asyncio.create_task(line.journal.write(told(name, EventName.FINISHED))) for name in "abc"]
    await asyncio.sleep(0)
    waits[0].cancel()
    await asyncio.gather(*waits[1:])
    assert waits[0].cancelled()


async def test_whoever_waits_when_the_session_ends_hears_of_it_and_so_does_whoever_comes_later(line: Line) -> None:
    waits = [asyncio.create_task(line.journal.write(told(name, EventName.FINISHED))) for name in "ab"]
    await asyncio.sleep(0)
    line.session.end("over")
    for wait in waits:
        with pytest.raises(SessionLost):
            await wait
    await line.journal.close()
    with pytest.raises(SessionLost):
        await line.journal.write(told("c", EventName.FINISHED))
    line.begin("d")  # nobody waits for it, so nobody hears of it
