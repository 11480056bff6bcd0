"""The fence on both real stores: a stamp starts once, a decision stands (C19)."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from consumer.fence import (
    Conflict,
    FenceUnavailable,
    Licensed,
    Pardoned,
    Pulse,
    Recollection,
    StoreFence,
    Superseded,
    mark_of,
    token_of,
)
from consumer.policy import Policy
from consumer.verdict import Decision, Ending, decide, next_message, pardon
from gateway.contract.envelope import Envelope
from gateway.contract.history import History, RunRecord
from gateway.contract.ids import TicketId
from gateway.contract.outcomes import Outcome, Stamp


def stamp(attempt: int = 1, interruptions: int = 0, generation: int = 0) -> Stamp:
    return Stamp(generation=generation, attempt=attempt, interruptions=interruptions)


def decision(outcome: Outcome) -> Decision:
    envelope = Envelope(ticket=TicketId("9417"), kind="k", body=b"", content_type="text/plain")
    record = RunRecord(attempt=1, outcome=outcome)
    return decide(envelope, Ending(outcome=outcome, record=record), Policy(), jitter=0.5)


@pytest.fixture
async def fence(store_url: str) -> AsyncIterator[StoreFence]:
    opened = await StoreFence.open(store_url)
    yield opened
    await opened.close()


async def licensed(fence: StoreFence, which: Stamp, ticket: str = "9417", token: str = "") -> bool:
    return isinstance(await fence.license(ticket, which, holder="n1", now=1.0, digest="d", token=token), Licensed)


async def change(store_url: str, statement: str) -> None:
    engine = create_async_engine(store_url)
    async with engine.begin() as connection:
        await connection.execute(text(statement))
    await engine.dispose()


async def test_a_stamp_is_licensed_once(fence: StoreFence) -> None:
    assert await licensed(fence, stamp())
    assert not await licensed(fence, stamp())
    assert await licensed(fence, stamp(interruptions=1))
    assert await licensed(fence, stamp(attempt=2))
    assert not await licensed(fence, stamp(attempt=1, interruptions=5))


async def test_of_a_hundred_copies_at_once_one_is_licensed(fence: StoreFence) -> None:
    answers = await asyncio.gather(*(licensed(fence, stamp()) for _ in range(100)))
    assert answers.count(True) == 1


async def test_two_nodes_never_license_one_stamp_twice(fence: StoreFence, store_url: str) -> None:
    other = await StoreFence.open(store_url)
    answers = await asyncio.gather(*(licensed(node, stamp(attempt=n)) for n in range(1, 20) for node in (fence, other)))
    await other.close()
    assert answers.count(True) <= 19


async def test_of_two_nodes_that_ask_at_once_for_tickets_nobody_has_seen_exactly_one_wins_each(
    fence: StoreFence, store_url: str
) -> None:
    other = await StoreFence.open(store_url)
    tickets = [f"t{n}" for n in range(200)]
    turns = [(fence, tickets), (other, list(reversed(tickets)))]
    answers = await asyncio.gather(*(licensed(node, stamp(), ticket) for node, order in turns for ticket in order))
    await other.close()
    wins = dict.fromkeys(tickets, 0)
    for (_, ticket), won in zip(((node, ticket) for node, order in turns for ticket in order), answers, strict=True):
        wins[ticket] += won
    assert set(wins.values()) == {1}


async def test_whoever_asks_again_for_the_same_delivery_gets_the_same_answer(fence: StoreFence) -> None:
    """A commit may succeed and its answer be lost on the way: asked again, the start is this delivery's own."""
    assert await licensed(fence, stamp(), token="delivery-1")
    assert await licensed(fence, stamp(), token="delivery-1")
    assert not await licensed(fence, stamp(), token="delivery-2")
    await fence.decide("9417", stamp(), decision(Outcome.FAILED), digest="d")
    assert not await licensed(fence, stamp(), token="delivery-1")


async def test_what_is_on_record_about_a_start_is_its_holder_and_its_decision(fence: StoreFence) -> None:
    assert await fence.recall("9417", stamp(), digest="d") == Recollection()
    await licensed(fence, stamp())
    assert await fence.recall("9417", stamp(), digest="d") == Recollection(holder="n1")
    assert await fence.recall("9417", stamp(attempt=2), digest="d") == Recollection()
    failed = decision(Outcome.FAILED)
    await fence.decide("9417", stamp(), failed, digest="d")
    assert await fence.recall("9417", stamp(), digest="d") == Recollection(holder="n1", decision=failed)
    assert isinstance(await fence.recall("9417", stamp(), digest="another"), Conflict)
    await licensed(fence, stamp(attempt=2))
    assert isinstance(await fence.recall("9417", stamp(), digest="d"), Superseded)


async def test_a_start_that_was_licensed_to_another_copy_is_none_of_this_messages(fence: StoreFence) -> None:
    ours, another = mark_of("m-1"), mark_of("m-2")
    assert await licensed(fence, stamp(), token=token_of(ours, "7" * 18))
    for message in (ours, ""):
        assert await fence.recall("9417", stamp(), digest="d", message=message) == Recollection(holder="n1")
    assert isinstance(await fence.recall("9417", stamp(), digest="d", message=another), Superseded)
    failed = decision(Outcome.FAILED)
    await fence.decide("9417", stamp(), failed, digest="d")
    assert (await fence.recall("9417", stamp(), digest="d", message=another)) == Recollection(
        holder="n1", decision=failed
    )


@pytest.mark.parametrize("token", ["", "01a22d8d-9cf3-799d-9edc-f9e876bffcc0", token_of(mark_of(None), "7" * 18)])
async def test_a_start_without_a_mark_of_its_message_is_anybodys(fence: StoreFence, token: str) -> None:
    assert await licensed(fence, stamp(), token=token)
    known = await fence.recall("9417", stamp(), digest="d", message=mark_of("m-1"))
    assert known == Recollection(holder="n1")


async def test_one_decision_that_cannot_be_read_stops_nobody_else(fence: StoreFence, store_url: str) -> None:
    await licensed(fence, stamp(), "broken")
    await fence.decide("broken", stamp(), decision(Outcome.FAILED), digest="d")
    await change(store_url, "UPDATE starts SET decision = 'nonsense'")
    asked = fence.recall("broken", stamp(), digest="d"), licensed(fence, stamp())
    broken, fine = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(broken, ValueError)
    assert fine is True


async def test_attempts_that_were_given_back_are_answered_at_the_next_start_and_close_the_generation(
    fence: StoreFence, store_url: str
) -> None:
    await licensed(fence, stamp())
    await fence.decide("9417", stamp(), decision(Outcome.FAILED), digest="d")
    await change(store_url, "UPDATE starts SET pardon = generation")
    answer = await fence.license("9417", stamp(attempt=2), holder="n1", now=1.0, digest="d")
    assert answer == Pardoned()
    assert await fence.decide("9417", stamp(attempt=2), pardon(), digest="d") == pardon()
    assert not await licensed(fence, stamp(attempt=3))
    assert await licensed(fence, stamp(generation=1))
    assert await licensed(fence, stamp(generation=1, attempt=2))


async def test_attempts_that_were_given_back_during_the_last_run_spare_the_item_its_quarantine(
    fence: StoreFence, store_url: str
) -> None:
    last = stamp(attempt=3)
    await licensed(fence, last)
    await change(store_url, "UPDATE starts SET pardon = generation")
    record = RunRecord(attempt=3, outcome=Outcome.FAILED)
    item = Envelope(ticket=TicketId("9417"), kind="k", body=b"", content_type="text/plain", attempt=3)
    used_up = decide(item, Ending(outcome=Outcome.FAILED, record=record), Policy(), jitter=0.5)
    assert used_up.final
    spared = await fence.decide("9417", last, used_up, digest="d")
    assert isinstance(spared, Decision)
    assert next_message(item, spared) == replace(item, generation=1, attempt=1, history=History((record,)))
    assert not await licensed(fence, stamp(attempt=4))


async def test_the_last_sign_of_life_of_a_node_is_the_newest(fence: StoreFence) -> None:
    assert await fence.pulse("n1#a") is None
    for beat in (1.5, 2.5):
        await fence.beat("n1#a", "work", Pulse(beat=beat, every=5.0))
    assert await fence.pulse("n1#a") == Pulse(beat=2.5, every=5.0)


async def test_what_ended_long_ago_and_who_is_silent_is_forgotten_and_nothing_else(fence: StoreFence) -> None:
    for ticket in ("ended", "open"):
        await licensed(fence, stamp(), ticket)
    await fence.decide("ended", stamp(), decision(Outcome.SUCCEEDED), digest="d")
    await fence.decide("open", stamp(), decision(Outcome.FAILED), digest="d")
    await fence.beat("silent#1", "work", Pulse(beat=10.0, every=5.0))
    await fence.beat("alive#1", "work", Pulse(beat=30.0, every=5.0))
    assert await fence.forget(silent_since=20.0, ended_before=None) == 0
    assert await fence.forget(silent_since=20.0, ended_before=1.0) == 0
    assert not await licensed(fence, stamp(attempt=2), "ended")
    assert await fence.forget(silent_since=20.0, ended_before=4e9) == 1
    assert await fence.recall("open", stamp(), digest="d") != Recollection()
    assert await fence.recall("ended", stamp(), digest="d") == Recollection()
    assert await fence.pulse("silent#1") is None
    assert await fence.pulse("alive#1") is not None


async def test_the_first_decision_about_a_start_stands(fence: StoreFence) -> None:
    await licensed(fence, stamp())
    failed = decision(Outcome.FAILED)
    assert await fence.decide("9417", stamp(), failed, digest="d") == failed
    assert await fence.decide("9417", stamp(), decision(Outcome.LOST), digest="d") == failed


async def test_a_decision_survives_the_node_that_took_it(fence: StoreFence, store_url: str) -> None:
    await licensed(fence, stamp())
    released = decision(Outcome.RELEASED)
    await fence.decide("9417", stamp(), released, digest="d")
    other = await StoreFence.open(store_url)
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
    for which in (stamp(), stamp(attempt=2), stamp(generation=1)):
        assert isinstance(await fence.license("9417", which, holder="n1", now=1.0, digest="a third"), Conflict)
        assert isinstance(await fence.recall("9417", which, digest="a third"), Conflict)


async def test_a_decision_about_an_older_start_is_superseded(fence: StoreFence) -> None:
    await licensed(fence, stamp(attempt=2))
    assert isinstance(await fence.decide("9417", stamp(), decision(Outcome.LOST), digest="d"), Superseded)


async def test_a_store_that_cannot_write_refuses_instead_of_licensing(fence: StoreFence, store_url: str) -> None:
    await change(store_url, "DROP TABLE starts")
    with pytest.raises(FenceUnavailable):
        await licensed(fence, stamp())


async def test_a_closed_fence_says_so(store_url: str) -> None:
    fence = await StoreFence.open(store_url)
    await fence.close()
    with pytest.raises(FenceUnavailable, match="closed"):
        await licensed(fence, stamp())
