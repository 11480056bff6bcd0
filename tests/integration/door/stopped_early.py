"""Ends a door's supervisor at each step of its start, in a process of its own each time; prints what became of it.

Run it with `-m`: the supervisor forks, so that nothing else may live in its process.
"""

import itertools
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from gateway import supervision
from gateway.membership import Membership
from gateway.settings import DoorSettings

HUNG = "hung"
_WITHIN = 20


def _serve_nobody(_: DoorSettings, __: Membership, opened: Any) -> int:
    opened()
    signal.pause()
    return 0


def _supervise_and_be_ended_at(step: int, folder: Path) -> None:
    """Send this very process SIGTERM before the `step`-th line of the supervisor's, or else once it is open."""
    steps = itertools.count(1)
    ours = os.getpid()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != supervision.__file__ or os.getpid() != ours:
            return None
        if event == "line" and next(steps) == step:
            os.kill(ours, signal.SIGTERM)
        return trace

    def announce(_: str) -> None:
        if next(steps) <= step:
            Path(folder, "open").touch()
            os.kill(ours, signal.SIGTERM)

    settings = DoorSettings(door="127.0.0.1:0", data=folder, door_workers=1)
    sys.settrace(trace)
    supervision.Supervisor(settings, _serve_nobody, announce).supervise()


def _fate(step: int, folder: Path) -> str:
    pid = os.fork()
    if pid == 0:
        try:
            _supervise_and_be_ended_at(step, folder)
        finally:
            os._exit(0)
    signal.alarm(_WITHIN)
    try:
        _, status = os.waitpid(pid, 0)
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return HUNG
    finally:
        signal.alarm(0)
    return str(os.waitstatus_to_exitcode(status))


def _too_late(*_: object) -> None:
    raise TimeoutError


def main() -> None:
    """Try every step until the door is open."""
    signal.signal(signal.SIGALRM, _too_late)
    for step in itertools.count(1):
        folder = Path(sys.argv[1], str(step))
        folder.mkdir(parents=True)
        print(step, _fate(step, folder), flush=True)
        if Path(folder, "open").exists():
            break


if __name__ == "__main__":
    main()
