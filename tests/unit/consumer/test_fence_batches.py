"""What is asked in one moment shares a transaction, in parts of few sizes; each question gets its own answer."""

import asyncio
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from consumer.fence import FenceRefuses, Licensed, Recollection, StoreFence, Superseded
from gateway.contract.outcomes import Stamp

FIRST = Stamp(generation=0, attempt=1, interruptions=0)


@pytest.mark.parametrize("number", [1, 2, 3, 63, 64, 65, 200, 600])
async def test_every_question_of_a_batch_of_any_size_is_answered_and_on_record(store_url: str, number: int) -> None:
    fence = await StoreFence.open(store_url)
    tickets = [f"t{n}" for n in range(number)]

    async def start(ticket: str) -> object:
        return await fence.license(ticket, FIRST, holder=f"n-{ticket}", now=1.0, digest="d")

    assert await asyncio.gather(*map(start, tickets)) == [Licensed()] * number
    known = await asyncio.gather(*(fence.recall(ticket, FIRST, digest="d") for ticket in tickets))
    assert known == [Recollection(holder=f"n-{ticket}") for ticket in tickets]
    again = await asyncio.gather(*map(start, [*tickets, "another"]))
    assert [type(answer) for answer in again] == [Superseded] * number + [Licensed]
    await fence.close()


@pytest.mark.parametrize("unfit", [0, 3, 6], ids=["first", "middle", "last"])
async def test_what_the_store_refuses_fails_alone(store_url: str, unfit: int) -> None:
    fence = await StoreFence.open(store_url)

    async def start(number: int) -> object:
        stamp = Stamp(generation=2**70 if number == unfit else 0, attempt=1, interruptions=0)
        return await fence.license(f"t{number}", stamp, holder="n", now=1.0, digest="d")

    answers = await asyncio.gather(*map(start, range(7)), return_exceptions=True)
    assert [isinstance(answer, Licensed) for answer in answers] == [number != unfit for number in range(7)]
    assert isinstance(answers[unfit], FenceRefuses)
    assert await fence.recall(f"t{unfit}", FIRST, digest="d") == Recollection()
    await fence.close()


@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("ticket", "digest"), [("\ud800", "d"), ("nul\0", "d"), ("long", "d" * 65)], ids=["surrogate", "nul", "length"]
)
async def test_text_that_the_server_refuses_fails_alone(store_url: str, ticket: str, digest: str) -> None:
    fence = await StoreFence.open(store_url)
    answers = await asyncio.gather(
        fence.license(ticket, FIRST, holder="n", now=1.0, digest=digest),
        fence.license("good", FIRST, holder="n", now=1.0, digest="d"),
        return_exceptions=True,
    )
    assert isinstance(answers[0], FenceRefuses)
    assert answers[1] == Licensed()
    await fence.close()


async def test_an_index_that_costs_upkeep_and_serves_nothing_any_more_is_given_up(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/station.db"
    await (await StoreFence.open(url)).close()
    engine = create_async_engine(url)
    async with engine.begin() as store:
        await store.execute(sa.text("CREATE INDEX starts_by_end ON starts (ended_at)"))
    await (await StoreFence.open(url)).close()
    async with engine.connect() as store:
        named = await store.run_sync(lambda connection: sa.inspect(connection).get_indexes("starts"))
    await engine.dispose()
    assert [index["name"] for index in named] == ["starts_ended"]
