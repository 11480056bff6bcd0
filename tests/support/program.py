"""Starts our programs as a user would, watches them from outside, and counts what they leave behind.

Never looks inside a program: what a test learns is its log, its exit code, its processes.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from uuid import uuid4

import psutil

from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
_MARK = "TEST_PROGRAM"
"""Environment variable that every descendant inherits, so that an orphan is found wherever it hides."""
ENVIRONMENT: Final = {
    "PYTHONPATH": str(ROOT),
    "PYTHONUNBUFFERED": "1",
    "PYTHONFAULTHANDLER": "1",
}
"""Of every program under test."""
OF_ITS_OWN: Final = ("LAZARETTO_", "OTEL_")
"""Variables that a program under test gets from its test alone."""


def _marked() -> dict[str, list[psutil.Process]]:
    """Return the live processes that have a mark, by mark: one look at all there are, in the kernel's own files."""
    found: dict[str, list[psutil.Process]] = {}
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.Error):  # gone meanwhile, or somebody else's
            _, mark, rest = Path(f"/proc/{pid}/environ").read_bytes().partition(f"{_MARK}=".encode())
            if mark and (process := psutil.Process(pid)).status() != psutil.STATUS_ZOMBIE:
                found.setdefault(rest.partition(b"\0")[0].decode(), []).append(process)
    return found


class Program:
    """One running program. Its standard output and error go to one file, `log_path`."""

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], log_path: Path, cwd: Path = ROOT) -> None:
        self.name = log_path.stem
        self.log_path = log_path
        self.mark = uuid4().hex
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(OF_ITS_OWN)}
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                list(argv),
                env={**inherited, **ENVIRONMENT, _MARK: self.mark, **env},
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id of the program itself."""
        return self._process.pid

    @property
    def log(self) -> str:
        """Everything it has said so far."""
        return self.log_path.read_text("utf-8", "replace")

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal, or None while it runs."""
        return self._process.poll()

    def wait_for_log(self, pattern: str, within: float = 60.0, *, count: int = 1) -> re.Match[str]:
        """Return the `count`-th match of `pattern` in the log; fail at the deadline or when it has ended."""

        def matches() -> list[re.Match[str]]:
            # Asked before the log is read: what a program says last is still found after it has ended.
            ended = self.exit_code
            found = list(re.finditer(pattern, self.log, re.MULTILINE))
            if ended is not None and len(found) < count:
                raise AssertionError(f"{self.name} ended with {ended} before {pattern!r}:\n{self.tail()}")
            return found if len(found) >= count else []

        try:
            return eventually(matches, within, saying=f"{self.name} logs {pattern!r}")[count - 1]
        except AssertionError as failure:
            failure.add_note(self.tail())
            raise

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program itself, not to its children."""
        self._process.send_signal(number)

    def terminate(self, within: float = 60.0) -> int:
        """Ask it to end with SIGTERM and return its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(within)

    def kill9(self) -> None:
        """Kill the program itself with SIGKILL and reap it; its children are on their own."""
        self._process.kill()
        self._process.wait()

    def wait(self, within: float = 60.0) -> int:
        """Return the exit code; fail after `within` seconds."""
        try:
            return self._process.wait(within)
        except subprocess.TimeoutExpired:
            failure = AssertionError(f"{self.name} (pid {self.pid}) still runs after {within:g} s")
            failure.add_note(self.tail())
            raise failure from None

    def family(self) -> list[psutil.Process]:
        """Return every live process that descends from this program, itself included, orphans too."""
        return _marked().get(self.mark, [])

    def children(self) -> list[psutil.Process]:
        """Return the live descendants, itself excluded."""
        return [process for process in self.family() if process.pid != self.pid]

    def tail(self, lines: int = 40) -> str:
        """Return the end of its log, headed by its name."""
        return f"--- {self.name} (pid {self.pid}, exit code {self.exit_code})\n" + "\n".join(
            self.log.splitlines()[-lines:]
        )


class Programs:
    """The programs of one test. `close` ends what still runs and names what would not go."""

    ENDS_WITHIN = 30.0
    ORPHANS_GONE_WITHIN = 20.0

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[Program] = []

    def start(self, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> Program:
        """Start `argv` under the name that its log file gets."""
        log_path = self.folder / f"{name}-{len(self.started)}.log"
        program = Program(argv, env=env or {}, log_path=log_path, cwd=cwd)
        self.started.append(program)
        return program

    def python(self, name: str, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> Program:
        """Start this interpreter with `arguments`, for instance `python("door", "-m", "gateway", env={...})`."""
        return self.start(name, [sys.executable, *arguments], env, cwd)

    def close(self) -> None:
        """End every program with SIGTERM, then fail if any descendant outlives it by more than a few seconds."""
        for program in reversed(self.started):
            if program.exit_code is None:
                program.signal(signal.SIGTERM)
                program.signal(signal.SIGCONT)
        deadline = time.monotonic() + self.ENDS_WITHIN
        stubborn = []
        for program in self.started:
            try:
                program.wait(max(0.1, deadline - time.monotonic()))
            except AssertionError:
                stubborn.append(program.name)
                program.kill9()
        left: dict[psutil.Process, str] = {}

        def nobody_is_left() -> bool:
            nonlocal left
            left = self._left()
            return not left

        with contextlib.suppress(AssertionError):
            eventually(nobody_is_left, self.ORPHANS_GONE_WITHIN)
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        named = [f"{process.pid} of {name}" for process, name in left.items()]
        assert not stubborn, f"would not end within {self.ENDS_WITHIN:g} s of SIGTERM: {stubborn}"
        assert not named, f"orphans: {named}"

    def _left(self) -> dict[psutil.Process, str]:
        marked = _marked()
        return {process: program.name for program in self.started for process in marked.get(program.mark, [])}
