"""Handlers that tests run in real workers: each notes that it started, then does what the ticket's kind says.

The record of starts is a file outside of everything under test, one line for each start, appended in one write.
"""

import asyncio
import ctypes
import hashlib
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from consumer.handler import Attachment, DependencyDown, Reject, Retry, Run

STARTS = "TEST_STARTS"
GATE = "TEST_GATE"
"""A folder: runs of the kinds `wait.x`, `stubborn.x`, `waitfail.x`, `payer.x` wait for a file of that name in it, and
`brittle.x` survives with one."""


PROVIDER_IS_UP = "provider-is-up"
"""A file in that folder: while it is there, runs of the kinds `needy.x` succeed."""
PROVIDER_KILLS_ONE = "provider-kills-one"
"""The same: the first of those runs that sees it removes it, and its worker dies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start of a handler, as the handler itself saw it."""

    ticket: str
    generation: int
    attempt: int
    pid: int
    at: float


def read_starts(path: Path) -> list[Start]:
    """Return every start so far, oldest first."""
    return [Start(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def _write(path: str, row: object) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, json.dumps(row).encode() + b"\n")
    finally:
        os.close(descriptor)


def _note_start(run: Run) -> None:
    start = Start(ticket=run.ticket.id, generation=run.generation, attempt=run.attempt, pid=os.getpid(), at=time.time())
    _write(os.environ[STARTS], {name: getattr(start, name) for name in Start.__slots__})


def handle(run: Run) -> None:  # noqa: PLR0912  one branch for each accident
    """Do what the ticket's kind says; a kind may be followed by `.anything`."""
    _note_start(run)
    match run.ticket.kind.split(".")[0]:
        case "good":
            run.progress("good")
        case "slow":
            time.sleep(0.3)
        case "wait":
            while not _is_open(run) and not run.lost:
                time.sleep(0.02)
        case "beat":
            while not _is_open(run):
                run.progress("alive")
                time.sleep(0.05)
        case "stubborn":
            while not _is_open(run):
                time.sleep(0.02)
        case "waitfail":
            while not _is_open(run):
                time.sleep(0.02)
            raise ValueError("it waited, and failed all the same")
        case "killer":
            run.progress("about to die")
            print("last words on standard output", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        case "killeronce" if run.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        case "killeronce":
            run.progress("it was not the ticket")
        case "confessor" if run.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        case "confessor" if run.attempt == 2:
            raise ValueError("said in words what was deadly before")
        case "confessor":
            run.progress("back among the others")
        case "payer":
            while not _is_open(run):
                time.sleep(0.02)
            run.spend(tokens=10)
            _write(os.environ[STARTS] + ".paid", run.key)
        case "spender":
            run.spend(tokens=600, usd=0.25)
            raise ValueError("paid for nothing")
        case "spendkiller":
            run.spend(tokens=1500, usd=0.25)
            _kill_node()
        case "spinner":  # kills its worker in the work lane, and burns processor time in isolation
            while run.attempt > 1:
                pass
            os.kill(os.getpid(), signal.SIGKILL)
        case "brittle":
            if not _is_open(run):
                ctypes.string_at(0)
        case "exit":
            os._exit(7)
        case "nodekiller":
            _kill_node()
        case "fail":
            raise ValueError("this ticket fails every time")
        case "readeronce" if run.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        case "reader" | "readeronce":
            _write(os.environ[STARTS] + ".read", [run.ticket.id, *map(_read, run.ticket.attachments)])
        case "verbose":
            raise ValueError("é" * 100_000)
        case "reject":
            raise Reject("not a ticket")
        case "later":
            raise Retry("rate limited", after=0.5)
        case "down":
            raise DependencyDown("the-provider", after=0.2)
        case "inventor":
            raise DependencyDown(run.ticket.id * 50, after=600)
        case "needy":
            _call_provider(run)
        case "hog":
            hoard = []
            while True:
                hoard.append(bytearray(4 << 20))
        case "hang":
            time.sleep(600)
        case other:
            raise AssertionError(f"no such kind in these tests: {other}")


async def handle_inline(run: Run) -> None:
    """Do the same for kinds that need no process of their own."""
    handle(run)


async def handle_patiently(run: Run) -> None:
    """Wait for the gate of the kind, however many wait beside it; told that its claim is gone, wait on."""
    _note_start(run)
    while not _is_open(run):  # noqa: ASYNC110  the gate is a file, which tells nobody
        await asyncio.sleep(0.2)


def _call_provider(run: Run) -> None:
    """Need a dependency that is up while the test says so; how long it is to be left alone, the ticket says."""
    deadly = Path(os.environ[GATE]) / PROVIDER_KILLS_ONE
    if deadly.exists():
        deadly.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    if not (Path(os.environ[GATE]) / PROVIDER_IS_UP).exists():
        raise DependencyDown("the-provider", after=float(run.ticket.text))


def _read(attachment: Attachment) -> list[object]:
    digest = hashlib.sha256(attachment.content).hexdigest()
    return [attachment.name, attachment.content_type, attachment.size, digest, (attachment.text or "")[:20]]


def _is_open(run: Run) -> bool:
    return (Path(os.environ[GATE]) / run.ticket.kind).exists()


def _kill_node() -> None:
    """Take down the whole node, as the kernel does with a pod: supervisor, mold and every worker."""
    me = psutil.Process()
    family = me.parents()
    supervisor = next(process for process in family if "consumer" in process.cmdline() and "-m" in process.cmdline())
    for process in (supervisor, *supervisor.children(recursive=True)):
        if process.pid != me.pid:
            process.kill()
    me.kill()
