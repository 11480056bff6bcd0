"""Waiting that ends early: every pause of the station ends at once when it is to stop.

Owns nothing but that.
"""

import asyncio


async def pause(until: asyncio.Event, seconds: float) -> None:
    """Wait for `seconds`, or until the event is set."""
    try:
        async with asyncio.timeout(seconds):
            await until.wait()
    except TimeoutError:
        return
