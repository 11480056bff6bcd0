"""What comes while the broker is at work goes together, in its order, and never waits for long."""

import asyncio
from collections.abc import Sequence

from gateway.bundles import MOST, Bundles
from tests.support.waiting import soon


class Sent:
    """The bundles, in the order in which they went."""

    def __init__(self) -> None:
        self.bundles: list[list[int]] = []
        self.are: Bundles[int] = Bundles(self._take)

    def _take(self, bundle: Sequence[int]) -> None:
        self.bundles.append(list(bundle))


async def test_what_comes_in_one_turn_of_the_loop_goes_with_it() -> None:
    sent = Sent()
    for thing in range(3):
        sent.are.put(thing)
    assert sent.bundles == []
    await asyncio.sleep(0)
    assert sent.bundles == [[0, 1, 2]]


async def test_what_comes_while_others_are_under_way_goes_when_the_last_of_them_has_ended() -> None:
    sent = Sent()
    sent.are.put(0)
    sent.are.put(1)
    await asyncio.sleep(0)
    sent.are.put(2)
    sent.are.put(3)
    sent.are.ended()
    sent.are.ended()
    await asyncio.sleep(0)
    assert sent.bundles == [[0, 1], [2, 3]]


async def test_it_waits_no_longer_than_a_moment_for_a_broker_that_does_not_answer() -> None:
    sent = Sent()
    sent.are.put(0)
    await asyncio.sleep(0)
    sent.are.put(1)
    await soon(lambda: sent.bundles == [[0], [1]])


async def test_a_full_bundle_waits_for_nobody() -> None:
    sent = Sent()
    sent.are.put(-1)
    await asyncio.sleep(0)
    for thing in range(MOST):
        sent.are.put(thing)
    await asyncio.sleep(0)
    assert sent.bundles == [[-1], list(range(MOST))]
    sent.are.put(MOST)
    sent.are.go()
    assert sent.bundles[-1] == [MOST]
