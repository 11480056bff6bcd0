"""The fence on a real SQLite store: a stamp starts once, a decision stands (C19)."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from consumer.fence import Conflict, FenceUnavailable, Licensed, StoreFence, Superseded
from consumer.policy import Policy
from consumer.verdict import Decision, Ending, decide
from gateway.contract.envelope import Envelope
from gateway.contract.history import RunRecord
from gateway.contract.ids import TicketId
from gateway.contract.outcomes import Outcome, Stamp


def stamp(attempt: int = 1, interruptions: int = 0, generation: int = 0) -> Stamp:
    return Stamp(generation=generation, attempt=attempt, interruptions=interruptions)


def decision(outcome: Outcome) -> Decision:
    envelope = Envelope(ticket=TicketId("9417"), kind="k", body=b"", content_type="text/plain")
    record = RunRecord(attempt=1, outcome=outcome)
    return decide(envelope, Ending(outcome=outcome, record=record), Policy(), jitter=0.5)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path / 'station.db'}"


@pytest.fixture
async def fence(url: str) -> AsyncIterator[StoreFence]:
    opened = await StoreFence.open(url)
    yield opened
    await opened.close()


async def licensed(fence: StoreFence, which: Stamp) -> bool:
    return isinstance(await fence.license("9417", which, holder="n1", now=1.0, digest="d"), Licensed)


async def test_a_stamp_is_licensed_once(fence: StoreFence) -> None:
    assert await licensed(fence, stamp())
    assert not await licensed(fence, stamp())
    assert await licensed(fence, stamp(interruptions=1))
    assert await licensed(fence, stamp(attempt=2))
    assert not await licensed(fence, stamp(attempt=1, interruptions=5))


async def test_of_a_hundred_copies_at_once_one_is_licensed(fence: StoreFence) -> None:
    answers = await asyncio.gather(*(licensed(fence, stamp()) for _ in range(100)))
    assert answers.count(True) == 1


async def test_two_nodes_never_license_one_stamp_twice(fence: StoreFence, url: str) -> None:
    other = await StoreFence.open(url)
    answers = await asyncio.gather(*(licensed(node, stamp(attempt=n)) for n in range(1, 20) for node in (fence, other)))
    await other.close()
    assert answers.count(True) <= 19


async def test_the_first_decision_about_a_start_stands(fence: StoreFence) -> None:
    await licensed(fence, stamp())
    failed = decision(Outcome.FAILED)
    assert await fence.decide("9417", stamp(), failed, digest="d") == failed
    assert await fence.decide("9417", stamp(), decision(Outcome.LOST), digest="d") == failed


async def test_a_decision_survives_the_node_that_took_it(fence: StoreFence, url: str) -> None:
    await licensed(fence, stamp())
    released = decision(Outcome.RELEASED)
    await fence.decide("9417", stamp(), released, digest="d")
    other = await StoreFence.open(url)
    assert await other.decide("9417", stamp(), decision(Outcome.LOST), digest="d") == released
    await other.close()


async def test_nothing_starts_in_a_closed_generation_and_a_replay_opens_the_next(fence: StoreFence) -> None:
    await licensed(fence, stamp())
    await fence.decide("9417", stamp(), decision(Outcome.SUCCEEDED), digest="d")
    assert not await licensed(fence, stamp(attempt=2))
    assert isinstance(await fence.decide("9417", stamp(attempt=2), decision(Outcome.LOST), digest="d"), Superseded)
    assert await licensed(fence, stamp(generation=1))


async def test_another_body_under_a_taken_id_is_a_conflict_and_no_copy(fence: StoreFence) -> None:
    await licensed(fence, stamp())
    answer = await fence.license("9417", stamp(), holder="n1", now=1.0, digest="another")
    assert isinstance(answer, Conflict)
    await fence.decide("9417", stamp(), decision(Outcome.SUCCEEDED), digest="d")
    assert isinstance(await fence.decide("9417", stamp(), decision(Outcome.LOST), digest="another"), Conflict)
    replayed = await fence.license("9417", stamp(generation=1), holder="n1", now=1.0, digest="edited")
    assert isinstance(replayed, Licensed)


async def test_a_decision_about_an_older_start_is_superseded(fence: StoreFence) -> None:
    await licensed(fence, stamp(attempt=2))
    assert isinstance(await fence.decide("9417", stamp(), decision(Outcome.LOST), digest="d"), Superseded)


async def test_a_store_that_cannot_write_refuses_instead_of_licensing(fence: StoreFence, tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "station.db")) as store:
        store.execute("DROP TABLE starts")
    with pytest.raises(FenceUnavailable):
        await licensed(fence, stamp())


async def test_a_closed_fence_says_so(url: str) -> None:
    fence = await StoreFence.open(url)
    await fence.close()
    with pytest.raises(FenceUnavailable, match="closed"):
        await licensed(fence, stamp())
