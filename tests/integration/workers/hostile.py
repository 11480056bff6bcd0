"""A handler that fights its own worker, or forgets that it is in one; the ticket's text says how."""

import asyncio
import os
import resource
import signal
import sys
import tempfile
import time
from itertools import chain
from pathlib import Path

from consumer.handler import Run, at_exit
from consumer.pipe import Progress, Ready, encode


def handle(run: Run) -> None:  # noqa: PLR0912  one branch for each way
    verb, _, argument = run.ticket.text.partition(" ")
    match verb:
        case "fine":
            pass
        case "wait":
            while not Path(argument).exists() and not run.lost:
                time.sleep(0.01)
        case "fork":  # and both come back from the handler, the copy later
            if os.fork() == 0:
                while not Path(argument).exists():
                    time.sleep(0.01)
                Path(argument).unlink()
        case "babble":  # records without end, faster than anybody could read them
            words = bytes(encode(Progress(run=run.key, text="bla " * 8))) * 1000
            _write_for_ever(own_pipe(), words)
        case "call_out":  # empty lines without end
            _write_for_ever(1, b"\n" * (1 << 16))
        case "stay":
            at_exit(_pretend_to_be_new)
        case "mute":
            sys.stdout.write("unheard")
            os.close(1)
            os.close(2)
        case "hang_up":
            sys.stdout.close()
        case "too_large":
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
            with tempfile.TemporaryFile() as file:
                file.write(bytes(2 << 20))
        case "leave_oddly":
            at_exit(_leave_oddly)
        case "raise_at_exit":
            at_exit(sys.exit)
        case "deafen":  # to every signal that can be blocked or ignored
            for number in chain(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, 32, 33}):
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            time.sleep(600)
        case "own_loop":  # with signal handlers of its own
            asyncio.run(_listen_to_signals(float(argument)))
        case other:
            raise AssertionError(f"no such way: {other}")


async def _listen_to_signals(seconds: float) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: None)
    await asyncio.sleep(seconds)


def _pretend_to_be_new() -> None:
    os.write(own_pipe(), encode(Ready(resets_peak=True)))
    time.sleep(600)


def _leave_oddly() -> None:
    os._exit(7)


def _write_for_ever(descriptor: int, data: bytes) -> None:
    while True:
        os.write(descriptor, data)


def own_pipe() -> int:
    """Return the descriptor on which this worker speaks to its supervisor; those of its loop never block."""
    for entry in Path("/proc/self/fd").iterdir():
        if int(entry.name) > 2 and str(entry.readlink()).startswith("socket:") and os.get_blocking(int(entry.name)):
            return int(entry.name)
    raise AssertionError("no pipe")
