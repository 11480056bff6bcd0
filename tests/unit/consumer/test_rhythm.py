"""What a node does again and again goes on over a fault."""

import asyncio
import logging

import pytest

from consumer import rhythm


async def test_rhythm_that_breaks_off_begins_anew_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    begun, twice = 0, asyncio.Event()

    async def beat() -> None:
        nonlocal begun
        begun += 1
        if begun == 1:
            raise ZeroDivisionError("a fault of ours")
        twice.set()
        await asyncio.Event().wait()

    with caplog.at_level(logging.ERROR, "consumer.rhythm"):
        kept = asyncio.create_task(rhythm.keep(beat, pause=0))
        async with asyncio.timeout(20):
            await twice.wait()

    assert not kept.done()
    assert "rhythm.broken" in caplog.text
    assert "ZeroDivisionError: a fault of ours" in caplog.text
    kept.cancel()
    with pytest.raises(asyncio.CancelledError):
        await kept
    assert begun == 2
