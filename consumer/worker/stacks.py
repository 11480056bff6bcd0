"""Where a worker hangs, or died: written by itself into a file that its supervisor reads.

Owns the descriptor's contents. The file is of fixed size, so that nothing can grow it, and takes what is written even
if no other thread runs, the handler blocks in C, or nobody reads.
"""

import asyncio
import faulthandler
import os
import signal
import traceback
from typing import Any

from consumer.pipe import STACK_SIGNAL


def on_death(descriptor: int) -> None:
    """Write the stacks when the process dies of a fault of its own, or of its processor time."""
    faulthandler.enable(file=descriptor, all_threads=True)
    faulthandler.register(signal.SIGXCPU, file=descriptor, all_threads=True, chain=True)


def on_request(descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
    """Write the stacks whenever the supervisor asks; those of the loop's tasks follow, if that still turns."""
    # First the loop's handler, for faulthandler passes the signal on to whatever was there before.
    loop.add_signal_handler(STACK_SIGNAL, _write_tasks, descriptor, loop)
    faulthandler.register(STACK_SIGNAL, file=descriptor, all_threads=True, chain=True)


def were_written(descriptor: int) -> bool:
    """Whether this worker was asked in the middle of its run; the signal may have cut short what native code did."""
    return os.lseek(descriptor, 0, os.SEEK_CUR) > 0


def _write_tasks(descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        os.write(descriptor, where(task).encode("utf-8", "replace"))


def where(task: asyncio.Task[Any]) -> str:
    """Follow what waits for what, from the task down to where it waits, and write that as a traceback does."""
    awaited: Any = task.get_coro()
    summary = []
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            summary.append(traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return "".join([f"Task {task.get_name()} (most recent call last):\n", *traceback.format_list(summary)])
