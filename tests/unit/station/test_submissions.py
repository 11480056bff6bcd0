"""Who may publish a ticket that is submitted more than once: on both stores, whatever the order, one at a time (G8)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.station import submissions
from gateway.station.store import Store
from gateway.station.submissions import Claim, Claimed, Confirmed, Differs, Found, InFlight, Recorded
from gateway.station.tables.submissions import submissions as rows

T = TypeVar("T")
NOW = 1_800_000_000.0
KEEP = 3600.0


def _claim(holder: str = "a", *, ticket: str = "t", digest: str = "d", lease: float = 10.0) -> Claim:
    return Claim(ticket=ticket, digest=digest, holder=holder, lease=lease, keep=KEEP)


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url)
    yield opened
    await opened.close()


async def _do(store: Store, step: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    async with store.writing() as transaction:
        return await step(transaction)


async def _claimed(store: Store, wanted: Claim, now: float = NOW) -> Found:
    (found,) = await _do(store, lambda transaction: submissions.claim(transaction, [wanted], now))
    return found


async def _recorded(store: Store, held: Claim, answer: bytes, now: float = NOW) -> Recorded:
    confirmed = Confirmed(held=held, status=202, answer=answer)
    (recorded,) = await _do(store, lambda transaction: submissions.record(transaction, [confirmed], now))
    return recorded


async def _count(store: Store) -> int:
    async with store.reading() as transaction:
        return await transaction.scalar(sa.select(sa.func.count()).select_from(rows)) or 0


async def test_the_first_one_gets_it_and_the_second_one_waits(store: Store) -> None:
    assert await _claimed(store, _claim("a")) == Claimed()
    assert await _claimed(store, _claim("b"), NOW + 4) == InFlight(seconds=6.0)


async def test_of_many_at_once_exactly_one_gets_it(store: Store) -> None:
    found = await asyncio.gather(*(_claimed(store, _claim(str(number))) for number in range(8)))

    assert found.count(Claimed()) == 1
    assert all(isinstance(each, InFlight) for each in found if each != Claimed())


async def test_what_was_recorded_first_is_the_answer_for_ever(store: Store) -> None:
    await _claimed(store, _claim("a"))

    assert await _recorded(store, _claim("a"), b"first") == Recorded(status=202, answer=b"first")
    assert await _recorded(store, _claim("a"), b"second") == Recorded(status=202, answer=b"first")
    assert await _claimed(store, _claim("b"), NOW + KEEP - 1) == Recorded(status=202, answer=b"first")


@pytest.mark.parametrize("answer", [None, b"answer"])
async def test_other_contents_never_get_the_ticket_while_it_is_remembered(store: Store, answer: bytes | None) -> None:
    await _claimed(store, _claim("a"))
    if answer is not None:
        await _recorded(store, _claim("a"), answer)

    for now in (NOW + 1, NOW + 11, NOW + KEEP - 1):
        assert await _claimed(store, _claim("b", digest="other"), now) == Differs()


async def test_a_claim_whose_lease_is_over_is_taken_over_by_one(store: Store) -> None:
    await _claimed(store, _claim("dead"))

    assert await _claimed(store, _claim("b"), NOW + 10) == Claimed(taken_over=True)
    assert isinstance(await _claimed(store, _claim("c"), NOW + 11), InFlight)


async def test_a_lease_of_a_clock_that_has_gone_back_is_over(store: Store) -> None:
    await _claimed(store, _claim("a"), NOW + 86_400)

    assert await _claimed(store, _claim("b"), NOW) == Claimed(taken_over=True)


async def test_a_lease_is_as_long_as_its_holder_wrote_whatever_deadline_others_have(store: Store) -> None:
    await _claimed(store, _claim("patient", lease=300.0))

    found = await _claimed(store, _claim("hasty", lease=10.0), NOW + 200)
    assert found == InFlight(seconds=100.0)
    assert await _claimed(store, _claim("hasty", lease=10.0), NOW + 300) == Claimed(taken_over=True)
    assert await _claimed(store, _claim("patient", lease=300.0), NOW + 310) == Claimed(taken_over=True)


async def test_a_door_whose_clock_is_a_little_behind_takes_nothing_over(store: Store) -> None:
    await _claimed(store, _claim("a"), NOW + submissions.CLOCKS_DIFFER)

    assert isinstance(await _claimed(store, _claim("b"), NOW), InFlight)


async def test_a_claim_of_a_door_that_does_not_tell_its_lease_is_judged_by_ones_own(store: Store) -> None:
    await _claimed(store, _claim("a"))
    async with store.writing() as transaction:
        await transaction.execute(sa.update(rows).values(lease=None))

    assert await _claimed(store, _claim("b"), NOW + 4) == InFlight(seconds=6.0)
    assert await _claimed(store, _claim("b"), NOW - 60) == Claimed(taken_over=True)


async def test_what_is_in_flight_is_not_forgotten_however_short_the_memory(store: Store) -> None:
    await _claimed(store, _claim("slow", lease=2 * KEEP))

    await _do(store, lambda transaction: submissions.forget(transaction, NOW + KEEP, 10))

    assert isinstance(await _claimed(store, _claim("b"), NOW + KEEP), InFlight)


async def test_a_released_claim_is_there_at_once_for_the_same_contents(store: Store) -> None:
    await _claimed(store, _claim("a"))
    await _do(store, lambda transaction: submissions.release(transaction, [_claim("a")]))

    assert await _claimed(store, _claim("b", digest="other"), NOW) == Differs()
    assert await _claimed(store, _claim("b"), NOW) == Claimed(taken_over=True)


async def test_who_was_taken_over_cannot_release_what_is_not_its_own(store: Store) -> None:
    await _claimed(store, _claim("late"))
    await _claimed(store, _claim("b"), NOW + 10)

    await _do(store, lambda transaction: submissions.release(transaction, [_claim("late")]))

    assert isinstance(await _claimed(store, _claim("c"), NOW + 11), InFlight)


async def test_who_was_taken_over_may_still_tell_that_it_was_accepted_and_both_say_the_same(store: Store) -> None:
    await _claimed(store, _claim("late"))
    await _claimed(store, _claim("b"), NOW + 10)

    assert (await _recorded(store, _claim("late"), b"of the late one", NOW + 11)).answer == b"of the late one"
    assert (await _recorded(store, _claim("b"), b"of the other", NOW + 12)).answer == b"of the late one"


async def test_a_recorded_answer_cannot_be_released(store: Store) -> None:
    await _claimed(store, _claim("a"))
    await _recorded(store, _claim("a"), b"answer")
    await _do(store, lambda transaction: submissions.release(transaction, [_claim("a")]))

    assert await _claimed(store, _claim("b"), NOW + 1) == Recorded(status=202, answer=b"answer")


async def test_after_its_time_a_ticket_is_as_good_as_new(store: Store) -> None:
    await _claimed(store, _claim("a"))
    await _recorded(store, _claim("a"), b"old")

    assert await _claimed(store, _claim("b", digest="other"), NOW + KEEP) == Claimed()
    assert (await _recorded(store, _claim("b", digest="other"), b"new", NOW + KEEP)).answer == b"new"


async def test_a_record_of_what_was_forgotten_meanwhile_is_its_own_answer(store: Store) -> None:
    assert (await _recorded(store, _claim("a"), b"answer")).answer == b"answer"


async def test_many_are_claimed_and_recorded_together_each_with_its_own_answer(store: Store) -> None:
    await _claimed(store, _claim("other", ticket="t3"))
    await _claimed(store, _claim("done", ticket="t1"))
    await _recorded(store, _claim("done", ticket="t1"), b"long ago")
    wanted = [_claim(ticket=f"t{number}") for number in (4, 3, 2, 1, 0)]

    found = await _do(store, lambda transaction: submissions.claim(transaction, wanted, NOW + 1))
    assert found == [
        Claimed(),
        InFlight(seconds=9.0),
        Claimed(),
        Recorded(status=202, answer=b"long ago"),
        Claimed(),
    ]

    confirmed = [Confirmed(held=each, status=202, answer=each.ticket.encode()) for each in wanted]
    recorded = await _do(store, lambda transaction: submissions.record(transaction, confirmed, NOW + 1))
    assert [each.answer for each in recorded] == [b"t4", b"t3", b"t2", b"long ago", b"t0"]


async def test_what_is_over_is_forgotten_in_batches_and_nothing_else(store: Store) -> None:
    for number in range(5):
        await _claimed(store, _claim(ticket=f"old-{number}"))
    await _claimed(store, _claim(ticket="young"), NOW + 1)

    forgotten = [await _do(store, lambda transaction: submissions.forget(transaction, NOW + KEEP, 3)) for _ in range(3)]

    assert forgotten == [3, 2, 0]
    assert await _count(store) == 1
