"""What is asked of the whole store is remembered for as long as it is dear, and asked once for all who wait."""

import asyncio

from gateway.station.desk.almanac import Remembered


class _Counted:
    def __init__(self) -> None:
        self.asked = 0
        self.go_on = asyncio.Event()

    async def __call__(self) -> int:
        self.asked += 1
        await self.go_on.wait()
        return self.asked


async def test_who_comes_while_it_is_being_asked_waits_for_that_answer() -> None:
    ask = _Counted()
    remembered = Remembered(ask, longest=3600.0)
    waiting = [asyncio.create_task(remembered.get()) for _ in range(5)]
    await asyncio.sleep(0)
    ask.go_on.set()
    assert await asyncio.gather(*waiting) == [1] * 5
    assert ask.asked == 1


async def test_what_is_old_is_asked_again() -> None:
    ask = _Counted()
    ask.go_on.set()
    remembered = Remembered(ask, longest=0.0)
    assert [await remembered.get() for _ in range(3)] == [1, 2, 3]
