"""Handlers that benchmarks have the fleet run. Each start and end is one line in a file outside of all under test.

Nothing here knows what is being measured; the no-ops note nothing, because noting would be the larger part of them.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from consumer.handler import Run

RECORD: Final = "BENCHMARK_RECORD"
"""The environment variable that names the file."""
GOOD_SECONDS: Final = 0.02
SLOW_SECONDS: Final = 0.1
WAITING_SECONDS: Final = 0.05
"""How long a good and a slow item work: long beside our own cost, short beside a real model call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One start or end of a handler, as it saw it itself."""

    ticket: str
    attempt: int
    pid: int
    what: str
    at: float
    """Unix seconds."""


class Record:
    """Reads the file as it grows, each line once: whoever looks on often must not be what is measured."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._notes: list[Note] = []
        self._ended: set[str] = set()
        self._looked = 0

    def ended(self) -> AbstractSet[str]:
        """Return the tickets of which an end is noted; a look costs what is new."""
        notes = self.notes()
        self._ended.update(note.ticket for note in notes[self._looked :] if note.what == "end")
        self._looked = len(notes)
        return self._ended

    def notes(self) -> list[Note]:
        """Return every note so far, oldest first."""
        if self._path.exists():
            with self._path.open("rb") as record:
                record.seek(self._read)
                fresh = record.read()
            whole = fresh[: fresh.rfind(b"\n") + 1]
            self._read += len(whole)
            self._notes += [Note(**json.loads(line)) for line in whole.splitlines()]
        return self._notes


def _note(run: Run, what: str) -> None:
    row = {"ticket": run.ticket.id, "attempt": run.attempt, "pid": os.getpid(), "what": what, "at": time.time()}
    descriptor = os.open(os.environ[RECORD], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, json.dumps(row).encode() + b"\n")
    finally:
        os.close(descriptor)


def handle(run: Run) -> None:
    """Work for a moment, or kill what the ticket's kind says: this worker, or the whole node."""
    _note(run, "start")
    match run.ticket.kind:
        case "killer":
            os.kill(os.getpid(), signal.SIGKILL)
        case "nodekiller":
            _kill_node()
        case "slow":
            time.sleep(SLOW_SECONDS)
        case _:
            time.sleep(GOOD_SECONDS)
    _note(run, "end")


def handle_nothing(_run: Run) -> None:
    """Do nothing, in a worker process."""


async def handle_nothing_inline(_run: Run) -> None:
    """Do nothing, in the node's own process."""


async def handle_waiting_inline(_run: Run) -> None:
    """Wait, as for a model, in the node's own process."""
    await asyncio.sleep(WAITING_SECONDS)


def _kill_node() -> None:
    """Take down supervisor, mold and workers at once, as the kernel does with a pod that is out of memory."""
    me = psutil.Process()
    supervisor = next(parent for parent in me.parents() if "consumer" in parent.cmdline())
    for process in (supervisor, *supervisor.children(recursive=True)):
        if process.pid != me.pid:
            process.kill()
    me.kill()
