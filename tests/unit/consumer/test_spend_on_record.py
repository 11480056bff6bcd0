"""What runs spend is on record with their start, and reaches the next message once, whatever comes between (C10)."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from consumer.fence import Open, Pulse, Recollection, StoreFence
from consumer.policy import Policy
from consumer.verdict import Decision, Ending, decide, next_message
from gateway.contract.envelope import Envelope, Spent
from gateway.contract.history import RunRecord
from gateway.contract.ids import TicketId, uuid7
from gateway.contract.outcomes import Outcome, Stamp

FIRST = Stamp(generation=0, attempt=1, interruptions=0)
SECOND = Stamp(generation=0, attempt=2, interruptions=0)


def item(ticket: str) -> Envelope:
    return Envelope(ticket=TicketId(ticket), kind="k", body=b"", content_type="text/plain", spent=Spent(tokens=7))


def decision(outcome: Outcome, spent: Spent) -> Decision:
    ending = Ending(outcome=outcome, record=RunRecord(attempt=1, outcome=outcome), spent=spent)
    return decide(item("x"), ending, Policy(), jitter=0.5)


@pytest.fixture
async def fence(store_url: str) -> AsyncIterator[StoreFence]:
    opened = await StoreFence.open(store_url)
    yield opened
    await opened.close()


async def start(fence: StoreFence, ticket: str, stamp: Stamp = FIRST) -> None:
    await fence.license(ticket, stamp, holder="n1", now=1.0, digest="d")


async def test_what_a_run_spent_survives_its_node_and_belongs_to_its_start_alone(
    fence: StoreFence, store_url: str
) -> None:
    await start(fence, "9417")
    assert await fence.spend("9417", FIRST, Spent(tokens=1200, usd=0.5))
    other = await StoreFence.open(store_url)
    assert await other.spent("9417", FIRST) == Spent(tokens=1200, usd=0.5)
    await start(other, "9417", SECOND)
    assert await other.spent("9417", SECOND) == Spent()
    await other.close()


async def test_nobody_can_spend_for_a_start_that_is_decided_overtaken_or_unknown(fence: StoreFence) -> None:
    assert not await fence.spend("9417", FIRST, Spent(tokens=1))
    await start(fence, "9417")
    await fence.decide("9417", FIRST, decision(Outcome.LOST, Spent()), digest="d")
    assert not await fence.spend("9417", FIRST, Spent(tokens=1))
    await start(fence, "9417", SECOND)
    assert not await fence.spend("9417", FIRST, Spent(tokens=1))
    assert await fence.spent("9417", SECOND) == Spent()


async def test_without_a_fence_spend_is_taken_and_kept_by_nobody() -> None:
    fence = Open()
    assert await fence.spend("9417", FIRST, Spent(tokens=1))
    assert await fence.spent("9417", FIRST) == Spent()


async def test_store_of_an_earlier_version_gets_what_it_lacks_and_keeps_what_it_has(store_url: str) -> None:
    engine = create_async_engine(store_url)
    async with engine.begin() as store:
        for statement in (
            """CREATE TABLE starts (ticket VARCHAR(128) NOT NULL, generation INTEGER NOT NULL, attempt INTEGER NOT NULL,
            interruptions INTEGER NOT NULL, holder VARCHAR(128) NOT NULL, started_at FLOAT NOT NULL, decision TEXT,
            closed BOOLEAN NOT NULL, digest VARCHAR(64) NOT NULL, PRIMARY KEY (ticket))""",
            """CREATE TABLE nodes (node VARCHAR(128) NOT NULL, lane VARCHAR(16) NOT NULL, beat_at FLOAT NOT NULL,
            PRIMARY KEY (node))""",
            "INSERT INTO starts VALUES ('9417', 0, 1, 0, 'n1', 1.0, NULL, false, 'd')",
            "INSERT INTO starts VALUES ('ended', 0, 1, 0, 'n1', 1.0, NULL, true, 'd')",
            "INSERT INTO nodes VALUES ('n1', 'work', 1.0)",
        ):
            await store.execute(text(statement))
    await engine.dispose()
    fence, other = await asyncio.gather(StoreFence.open(store_url), StoreFence.open(store_url))
    assert await fence.spend("9417", FIRST, Spent(tokens=3))
    assert await other.spent("9417", FIRST) == Spent(tokens=3)
    assert await fence.recall("9417", FIRST, digest="d") == Recollection(holder="n1")
    assert await fence.pulse("n1") == Pulse(beat=1.0, every=None)
    assert await fence.forget(silent_since=0.0, ended_before=time.time() - 60) == 0, "its end counts from the opening"
    assert await fence.forget(silent_since=0.0, ended_before=time.time() + 60) == 1
    await fence.close()
    await other.close()


class Standing:
    """A fence for all examples of a property, each with a ticket of its own."""

    def __init__(self, path: Path) -> None:
        self.runner = asyncio.Runner()
        self.fence = self.runner.run(StoreFence.open(f"sqlite+aiosqlite:///{path / 'station.db'}"))

    def close(self) -> None:
        self.runner.run(self.fence.close())
        self.runner.close()


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    stood = Standing(tmp_path_factory.mktemp("standing"))
    yield stood
    stood.close()


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 100)), max_size=4),
    st.permutations(range(4)),
    st.integers(0, 4),
    st.lists(st.sampled_from(["end", "reclaim"]), min_size=1, max_size=3),
)
def test_spend_is_carried_once_whatever_the_order_of_reports_ends_crashes_and_reclaims(
    standing: Standing, paid: list[tuple[int, int]], order: list[int], heard: int, ends: list[str]
) -> None:
    totals = [Spent()]
    for tokens, cents in paid:
        totals.append(totals[-1] + Spent(tokens=tokens, usd=cents / 100))
    told = [totals[n + 1] for n in order if n < len(paid)][:heard]  # the node dies before it has passed on the rest
    known = max((total.tokens for total in told), default=0)

    async def live() -> tuple[list[Spent], bool]:
        ticket = uuid7()
        await start(standing.fence, ticket)
        for total in told:
            assert await standing.fence.spend(ticket, FIRST, total)
        carried = []
        for end in ends:  # the first one stands; who comes later repeats it
            if end == "end":
                taken = decision(Outcome.FAILED, totals[-1])
            else:
                taken = decision(Outcome.LOST, await standing.fence.spent(ticket, FIRST))
            done = await standing.fence.decide(ticket, FIRST, taken, digest="d")
            assert isinstance(done, Decision)
            carried.append(next_message(item(ticket), done).spent)
        return carried, await standing.fence.spend(ticket, FIRST, totals[-1] + Spent(tokens=1))

    carried, late = standing.runner.run(live())
    wanted = totals[-1].tokens if ends[0] == "end" else known
    assert [spent.tokens for spent in carried] == [7 + wanted] * len(ends)
    assert len({spent.usd for spent in carried}) == 1
    assert not late
