"""Waiting for a condition with a deadline. The only place in the tests that lets time pass on purpose."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds. What comes at all comes far sooner; a deadline ends a test that would hang, and measures nothing."""

_FIRST_PAUSE = 0.02
"""Seconds."""
_LONGEST_PAUSE = 0.1
"""Seconds. What is not there after half of one takes many, and each look costs those who are asked."""
_GROWTH = 1.15


def eventually(condition: Callable[[], T], within: float = PATIENCE, *, saying: str = "") -> T:
    """Return the first true value of `condition`; fail after `within` seconds with the last value seen.

    An exception out of `condition` is a failure at once: a condition that cannot be asked is no condition.
    """
    deadline = time.monotonic() + within
    pause = _FIRST_PAUSE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(
                f"not within {within:g} s: {saying or inspect.getsource(condition).strip()}; {value=!r}"
            )
        time.sleep(pause)
        pause = min(pause * _GROWTH, _LONGEST_PAUSE)


@overload
async def soon(condition: Callable[[], Awaitable[T]], within: float = ..., *, saying: str = ...) -> T: ...
@overload
async def soon(condition: Callable[[], T], within: float = ..., *, saying: str = ...) -> T: ...
async def soon(condition: Callable[[], Any], within: float = PATIENCE, *, saying: str = "") -> Any:
    """Do as `eventually` does without blocking the loop; `condition` may be a coroutine function."""
    deadline = time.monotonic() + within
    pause = _FIRST_PAUSE
    while True:
        answer = condition()
        value = await answer if inspect.isawaitable(answer) else answer
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(
                f"not within {within:g} s: {saying or inspect.getsource(condition).strip()}; {value=!r}"
            )
        await asyncio.sleep(pause)
        pause = min(pause * _GROWTH, _LONGEST_PAUSE)
