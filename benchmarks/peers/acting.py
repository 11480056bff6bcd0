"""What one item has a peer do: nothing, or with `PEER_TASK=work` what our own handler does in `storm`.

Its notes go to the same file in the same form. Knows no library: a peer's module makes a task of one of the two.
"""

import asyncio
import json
import os
import signal
import time
from typing import Final

_WORKS: Final = os.environ.get("PEER_TASK") == "work"
_GOOD_SECONDS: Final = 0.02


def _nothing(name: str) -> None:
    """Do nothing."""


async def _nothing_async(name: str) -> None:
    """Do nothing."""


def _work(name: str) -> None:
    """Work for a moment, or kill this process."""
    _begin(name)
    time.sleep(_GOOD_SECONDS)
    _note(name, "end")


async def _work_async(name: str) -> None:
    """Work for a moment without keeping others from it, or kill this process."""
    _begin(name)
    await asyncio.sleep(_GOOD_SECONDS)
    _note(name, "end")


def _begin(name: str) -> None:
    _note(name, "start")
    if name.endswith("-killer"):
        os.kill(os.getpid(), signal.SIGKILL)


def _note(name: str, what: str) -> None:
    row = {"ticket": name, "attempt": 0, "pid": os.getpid(), "what": what, "at": time.time()}
    descriptor = os.open(os.environ["BENCHMARK_RECORD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, json.dumps(row).encode() + b"\n")
    finally:
        os.close(descriptor)


item = _work if _WORKS else _nothing
item_async = _work_async if _WORKS else _nothing_async
