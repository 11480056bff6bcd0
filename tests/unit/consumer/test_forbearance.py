import asyncio
import time

from consumer.forbearance import Forbearance
from tests.support.waiting import soon


async def test_forbearance_is_over_once_its_time_has_passed() -> None:
    over: list[float] = []
    Forbearance(0.2, lambda: over.append(time.monotonic()), listen=lambda: None)
    begun = time.monotonic()
    await soon(lambda: over)
    assert over[0] - begun >= 0.2


async def test_time_in_which_this_process_stood_still_does_not_count() -> None:
    over: list[bool] = []
    Forbearance(0.8, lambda: over.append(True), listen=lambda: None)
    await asyncio.sleep(0)
    time.sleep(1.5)  # the whole process stands still, which is the accident itself
    for _ in range(5):
        await asyncio.sleep(0)
    assert not over
    await soon(lambda: over)


async def test_forbearance_that_is_renewed_waits_on_and_what_renews_it_is_heard_before_it_is_over() -> None:
    over: list[bool] = []
    heard: list[int] = []

    def listen() -> None:
        heard.append(len(heard))
        if len(heard) == 1:
            forbearance.renew()

    forbearance = Forbearance(0.1, lambda: over.append(True), listen=listen)
    await soon(lambda: over)
    assert heard == [0, 1]


async def test_what_is_heard_at_the_last_moment_may_end_the_wait() -> None:
    heard: list[bool] = []

    def listen() -> None:
        heard.append(True)
        forbearance.cancel()

    forbearance = Forbearance(0.05, lambda: heard.append(False), listen=listen)
    await soon(lambda: heard)
    for _ in range(5):
        await asyncio.sleep(0.02)
    assert heard == [True]
