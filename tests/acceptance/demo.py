"""`make demo`: the story of ticket 9417 on a private broker and free ports, with a report of what was seen.

Exit code 0 only if all of it happened, 1 if something did not. Ends within a deadline, and leaves nothing behind. With
`--stay`, on a terminal, its desk stays up to be looked at until Ctrl-C, however long that takes.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

from tests.acceptance.findings import FINDINGS
from tests.acceptance.report import Report
from tests.acceptance.stage import SHORTENED, Stage
from tests.acceptance.story import Story

DEADLINE: Final = 240
"""Seconds for the whole story; it takes about a minute."""
INTERRUPTED: Final = 130


class OutOfTime(BaseException):
    """The deadline is over; nothing on the way up may take it for a finding."""


def main() -> int:
    """Play the story, report, and clear the stage whatever happens; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.acceptance.demo")
    parser.add_argument("--stay", action="store_true", help="leave everything up until Ctrl-C; on a terminal only")
    stay = parser.parse_args().stay
    signal.signal(signal.SIGALRM, _out_of_time)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.alarm(DEADLINE)
    report = Report()
    folder = Path(tempfile.mkdtemp(prefix="lazaretto-demo-"))
    stage = Stage(folder)
    code: int | None = None
    try:
        _tell(stage, report)
        signal.alarm(0)
        code = report.end()
        stays = stay and _is_watched()
        print(farewell(stage.desk, asked=stay, stays=stays), flush=True)
        while stays:
            signal.pause()
    except KeyboardInterrupt:
        # Once the story is told, somebody has seen enough.
        code = INTERRUPTED if code is None else code
        report.scene("interrupted; everything is being stopped")
    except (Exception, OutOfTime) as broken:  # noqa: BLE001 - whatever it was, it is what did not hold
        report.fail("The story came to its end", broken)
    finally:
        signal.alarm(0)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # the stage clears itself in bounded time
        complaints = stage.close()
    kept = report.broken and code != INTERRUPTED
    if kept:
        print(f"\n{stage.tails()}")
    else:
        shutil.rmtree(folder)
    if code is None:
        code = report.end()
    left = "no process, no port" + (f"; its logs are in {folder}" if kept else ", no file")
    print("; ".join(complaints) or f"Nothing is left of it: {left}.", flush=True)
    return code or bool(complaints)


def farewell(desk: str, *, asked: bool, stays: bool) -> str:
    """Return the words about the address of the desk, which stays up or goes."""
    if stays:
        return f"The desk is at {desk} with the page of 9417 at {desk}items/9417; Ctrl-C ends it, and all the rest."
    if asked:
        return f"The desk was at {desk} and does not stay, since there is no terminal to end it from."
    return f"The desk was at {desk} while this ran; `make demo ARGS=--stay` leaves it up until Ctrl-C."


def _is_watched() -> bool:
    return sys.stdin.isatty() and not os.environ.get("CI")


def _tell(stage: Stage, report: Report) -> None:
    special = ", ".join(f"{name}={value}" for name, value in SHORTENED.items())
    report.say(
        "The story of ticket 9417, on a private RabbitMQ, a door, a station and two consumers (work lane and isolation"
        f" lane), all real processes. Retries are hastened by {special}; nothing else is special about it."
    )
    report.say()
    report.scene("everything starts")
    stage.open()
    report.scene(f"the desk is at {stage.desk} until all of it has ended")
    story = Story(stage, report)
    try:
        story.play()
    finally:
        story.stop()
    report.scene("the story is over. What was seen from the outside:")
    report.say()
    for title, look in FINDINGS:
        report.check(title, partial(look, story))


def _out_of_time(_number: int, _frame: FrameType | None) -> None:
    raise OutOfTime(f"not over within {DEADLINE} s")


if __name__ == "__main__":
    sys.exit(main())
