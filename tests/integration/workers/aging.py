"""A handler that ages its worker as the ticket's text says, and notes in a file what it flushes when that leaves."""

import asyncio
import os
import time
from pathlib import Path

from consumer.handler import Run, at_exit

NOTES = "TEST_NOTES"
MOLD_LEAK = "TEST_MOLD_LEAK"
_MIB = 1 << 20
_buffered: list[str] = []
_hoard: list[bytearray] = []


def _leak_in_the_mold() -> None:
    """Grow by as many MiB at each fork as the environment says."""
    _hoard.append(_touched(int(os.environ.get(MOLD_LEAK, "0"))))


os.register_at_fork(after_in_parent=_leak_in_the_mold)


def _touched(mib: int) -> bytearray:
    return bytearray(b"x") * (mib * _MIB)


def _note(line: str) -> None:
    path = os.environ.get(NOTES)
    if path is not None:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, f"{os.getpid()} {line}\n".encode())
        finally:
            os.close(descriptor)


def _flush() -> None:
    for line in _buffered:
        _note(f"flushed {line}")


async def _flush_async() -> None:
    await asyncio.sleep(0)
    _note("flushed asynchronously")


def _fail() -> None:
    raise RuntimeError("this hook fails")


at_exit(_flush)
at_exit(_flush_async)
at_exit(_fail)
at_exit(_flush)


def handle(run: Run) -> None:
    verb, _, argument = run.ticket.text.partition(" ")
    _note(f"ran {run.ticket.id}")
    match verb:
        case "buffer":
            _buffered.append(argument)
        case "leak":
            _hoard.append(_touched(int(argument)))
        case "spike":
            _touched(int(argument))
        case "cling":
            at_exit(lambda: time.sleep(600))
        case "gulp":
            bytearray(64 << 30)
        case "nap":
            time.sleep(0.01)
        case "wait":
            while not Path(argument).exists():
                time.sleep(0.01)
        case _:
            pass
