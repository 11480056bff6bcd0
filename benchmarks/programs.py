"""Programs under test: started as a user starts them, measured from outside, ended before the benchmark returns.

Owns processes and their processor time. Never looks inside one: what is known of it is its log, exit code and clock.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil

from benchmarks.waiting import BenchmarkFailed, until

ROOT: Final = Path(__file__).resolve().parents[1]
_ENDS_WITHIN: Final = 40.0
"""Seconds; a drain may take its grace of 30 s."""


class Program:
    """One command in a session of its own; what it says goes to `log`."""

    def __init__(self, *command: str, env: Mapping[str, str], log: Path) -> None:
        self.log: Final = log
        self._name = " ".join(Path(word).name for word in command[:4])
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("LAZARETTO_")}
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                # The first words end the program too, should this process be killed before it can.
                ["/usr/bin/setpriv", "--pdeathsig", "TERM", *command],
                env={**inherited, "PYTHONPATH": str(ROOT), **env},
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id of the program itself."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it is gone."""
        return self._process.poll() is not None

    def cpu_seconds(self) -> float:
        """Processor time so far of the program and of its live descendants; steps of 10 ms each."""
        return cpu_seconds(self.pid)

    def wait_for_log(self, words: str, within: float = 30.0) -> None:
        """Return when it has said `words`; raises BenchmarkFailed with the end of its log."""

        def said() -> bool:
            ended = self.ended
            if words in self.log.read_text("utf-8", "replace"):
                return True
            if ended:
                raise BenchmarkFailed(f"{self._name} ended before {words!r}:\n{self.tail()}")
            return False

        until(said, within, f"{self._name} says {words!r}")

    def terminate(self) -> None:
        """Send SIGTERM and do not wait."""
        self._process.terminate()

    def hold(self) -> None:
        """Stop the program itself where it stands, until `let_go`; for seconds, not for longer than its heartbeats."""
        self._process.send_signal(signal.SIGSTOP)

    def let_go(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it with SIGTERM; a program that will not go is killed and named in BenchmarkFailed."""
        if not self.ended:
            self.terminate()
        try:
            self._process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BenchmarkFailed(f"{self._name} did not end within {_ENDS_WITHIN:g} s:\n{self.tail()}") from None

    def kill(self) -> None:
        """Kill it with all its descendants."""
        for pid in family(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def tail(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-15:])


def family(pid: int) -> list[int]:
    """Return a live process and its live descendants; nothing when it is gone."""
    try:
        process = psutil.Process(pid)
        return [pid, *(child.pid for child in process.children(recursive=True))]
    except psutil.NoSuchProcess:
        return []


def workers(pid: int) -> list[int]:
    """Return the worker processes of a node, by the name that they give themselves."""
    found = []
    for member in family(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(member)
            if process.name() == "lz-worker" and process.status() != psutil.STATUS_ZOMBIE:
                found.append(member)
    return found


def cpu_seconds(pid: int) -> float:
    """Return the processor time, user and system, of a process and its live descendants."""
    total = 0.0
    for member in family(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            used = psutil.Process(member).cpu_times()
            total += used.user + used.system
    return total


def resident_mib(pid: int) -> float:
    """Return the MiB of a live process and its descendants; a page that several of them share counts once (PSS)."""
    return sum(psutil.Process(member).memory_full_info().pss for member in family(pid)) / (1 << 20)
