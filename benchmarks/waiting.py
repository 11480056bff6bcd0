"""Waiting for a condition with a deadline, and the error that says a benchmark could not be carried out.

The only place here that lets time pass without doing anything.
"""

import time
from collections.abc import Callable
from typing import Final

INTERVAL: Final = 0.02
"""Seconds between two looks; also how soon a dead node is noticed and started again."""


class BenchmarkFailed(RuntimeError):
    """What was to be measured did not happen; the text says what is missing."""


def until(condition: Callable[[], bool], within: float, saying: str) -> None:
    """Return when `condition` holds; raise BenchmarkFailed after `within` seconds."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            raise BenchmarkFailed(f"not within {within:g} s: {saying}")
        time.sleep(INTERVAL)
