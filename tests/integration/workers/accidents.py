"""A handler for these tests: the ticket's text says which accident is to happen."""

import asyncio
import contextlib
import ctypes
import os
import resource
import signal
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

from consumer.handler import DependencyDown, Reject, Retry, Run
from consumer.pipe import Finished, Measured, Record, Spend, encode

FORK_GATE = "TEST_FORK_GATE"
BIRTH_GATE = "TEST_BIRTH_GATE"
MOLD_GATE = "TEST_MOLD_GATE"
_left_behind: list[asyncio.Task[None]] = []


def _stall_once(gate: str) -> None:
    """Hang if the file that `gate` names is there to be taken."""
    path = os.environ.get(gate)
    if path is not None and Path(path).exists():
        Path(path).unlink()
        time.sleep(600)


def _wait_once(gate: str) -> None:
    """If the file that `gate` names is there, wait until somebody takes it away."""
    path = os.environ.get(gate)
    while path is not None and Path(path).exists():
        time.sleep(0.01)


# A child that inherits a held lock, and a mold that stands still before it has told of the child.
os.register_at_fork(after_in_child=lambda: _wait_once(BIRTH_GATE))
os.register_at_fork(
    after_in_child=lambda: _stall_once(FORK_GATE),
    after_in_parent=lambda: _stall_once(MOLD_GATE),
)


def handle(run: Run) -> None:  # noqa: PLR0912  one branch for each accident
    verb, _, argument = run.ticket.text.partition(" ")
    match verb:
        case "fine":
            sys.stdout.write(f"handled {run.key}\n")
        case "murmur":
            run.progress("murmuring")
            sys.stdout.write("almost done\n")
            Path(argument).touch()
        case "wait":  # until the file exists, or the claim is lost
            run.progress("waiting")
            while not Path(argument).exists() and not run.lost:
                time.sleep(0.01)
        case "deaf":
            run.progress("deaf")
            while not Path(argument).exists():
                time.sleep(0.01)
        case "beat":  # until the file exists; says how often in another
            gate, beats = map(Path, argument.split(" "))
            number = 0
            while not gate.exists():
                number += 1
                run.progress(f"beat {number}")
                beats.write_text(str(number))
                time.sleep(0.05)
        case "spike":
            spike = bytearray(400 << 20)
            spike[:: 1 << 12] = b"x" * len(spike[:: 1 << 12])
        case "eat":
            run.progress("eating")
            eaten = []
            while True:
                eaten.append(b"x" * (8 << 20))
        case "gulp":
            bytearray(64 << 30)
        case "segfault":
            run.progress("about to read address 0")
            ctypes.string_at(0)
        case "exit":
            sys.stdout.write("one last line\n")
            os._exit(int(argument))
        case "raise":
            raise ValueError("something\x00 went \ud800 wrong")
        case "panic":
            raise asyncio.CancelledError
        case "reject":
            raise Reject("not a ticket")
        case "retry":
            raise Retry("rate limited", after=60)
        case "down":
            raise DependencyDown("the-model", after=30)
        case "spend":
            run.spend(tokens=1200, usd=0.004)
            run.spend(tokens=300)
            os._exit(1)
        case "pay":
            run.spend(tokens=5)
            Path(argument).touch()
        case "pay_often":
            with ThreadPoolExecutor(8) as threads:
                for _ in range(int(argument)):
                    threads.submit(run.spend, tokens=1)
        case "pay_later":  # a thread that outlives its run
            Thread(target=_pay_once_there, args=(run, Path(argument)), daemon=True).start()
        case "pay_in_child":
            child_pid = os.fork()
            if child_pid == 0:
                run.spend(tokens=5)
                os._exit(0)
            os.waitpid(child_pid, 0)
        case "chatter":  # through Python, past it to the descriptor, and from C, which buffers by itself
            for number in range(int(argument)):
                sys.stdout.write(f"line {number}\n")
            os.write(2, b"native descriptor\n")
            ctypes.CDLL(None).printf(b"native stream")
            raise ValueError("so much for talk")
        case "last_gasp":
            ctypes.CDLL(None).printf(b"native last words\n")
            os.abort()
        case "bitmap":  # as a decoder does: believe the header, and make room
            width, height = struct.unpack_from("!II", run.ticket.attachments[0].content, 16)
            canvas = [b"x" * (4 * width) for _ in range(height)]
            raise AssertionError(f"there was room for {len(canvas)} rows")
        case "burn":  # processor time, and memory that is touched for the first time
            touched = bytearray(64 << 20)
            touched[:: 1 << 12] = b"x" * len(touched[:: 1 << 12])
            until = time.process_time() + float(argument)
            while time.process_time() < until:
                pass
            raise ValueError("burnt out")
        case "block":  # in C, with the interpreter locked
            ctypes.PyDLL(None).usleep(600_000_000)
        case "open":
            opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(int(argument))]
            raise AssertionError(f"{len(opened)} were let through")
        case "limits":
            which = {"cpu": "CPU", "memory": "AS", "files": "NOFILE", "processes": "NPROC"}[argument]
            soft, hard = resource.getrlimit(getattr(resource, f"RLIMIT_{which}"))
            raise ValueError(f"{soft} {hard}")
        case "multiply":
            for _ in range(int(argument)):
                if os.fork() == 0:
                    signal.pause()
            raise AssertionError("all were let through")
        case "redos":
            import re  # noqa: PLC0415

            re.match(r"(a+)+$", "a" * 30 + "b")
        case "child":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            Path(argument).write_text(str(child.pid))
            time.sleep(600)
        case "stray":  # the way of a daemon: out of the group, and its parent is gone
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    Path(argument).write_text(str(os.getpid()))
                    time.sleep(600)
                os._exit(0)
            time.sleep(600)
        case "feed":  # a program that it calls takes the memory
            glutton = "b = bytearray(300 << 20); b[::4096] = b'x' * len(b[::4096]); import time; time.sleep(600)"
            subprocess.run([sys.executable, "-c", glutton], check=True)
        case "copies":  # which share what none of them changes
            shared = bytearray(120 << 20)
            shared[:: 1 << 12] = b"x" * len(shared[:: 1 << 12])
            copies = []
            for _ in range(3):
                if (copy := os.fork()) == 0:
                    time.sleep(1)
                    os._exit(0)
                copies.append(copy)
            for copy in copies:
                os.waitpid(copy, 0)
        case "garble":
            os.write(_own_pipe(), b"\xff" * 64)
            time.sleep(600)
        case "finish":  # says so itself, and is gone before it can be given another order
            os.write(_own_pipe(), encode(Finished(run=argument, outcome="succeeded")))
            os._exit(0)
        case "lie":
            os.write(_own_pipe(), encode(_LIES[argument]))
            time.sleep(600)
        case "flood":
            for _ in range(20_000):
                sys.stdout.write("flood " * 10 + "\n")
        case "descriptors":
            run.progress(" ".join(_descriptors().values()))
            os._exit(0)
        case "size":
            run.progress(str(len(run.ticket.text)))
            os._exit(0)
        case other:
            raise AssertionError(f"no such accident: {other}")


def _pay_once_there(run: Run, gate: Path) -> None:
    while not gate.exists():
        time.sleep(0.01)
    run.spend(tokens=5)
    gate.unlink()


_deep: dict[str, Any] = {}
for _ in range(200):
    _deep = {"deeper": _deep}
_LIES: dict[str, Record] = {
    "tokens": Measured(bytes=1, charset="utf-8", tokens=2**63 - 1, exact=True, attachments=0),
    "spend": Spend(run="", number=1, tokens=-(10**6), usd=0.0),
    "depth": Finished(run="", outcome="failed", violations=[_deep]),
}


class Panic(BaseException):
    """As extension modules raise it: no Exception, and no end of the process either."""


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no words")


_told = asyncio.Event()


async def _pay_when_told(run: Run) -> None:
    await _told.wait()
    assert run.lost
    run.progress("too late")
    run.spend(tokens=5)
    await asyncio.sleep(0)


async def handle_async(run: Run) -> None:  # noqa: PLR0912  one branch for each accident
    match run.ticket.text.split(" ")[0]:
        case "linger":  # leaves a task behind that the next run must not meet
            _left_behind.append(asyncio.create_task(asyncio.sleep(600), name="left behind"))
        case "cling":

            async def immortal() -> None:
                while True:
                    try:
                        await asyncio.sleep(600)
                    except asyncio.CancelledError:
                        continue

            _left_behind.append(asyncio.create_task(immortal()))
        case "neighbours":
            names = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            run.progress(f"{os.getpid()} {names}")
            raise Reject(f"{os.getpid()} {names}")
        case "raise":
            raise ValueError("async and wrong")
        case "sleep":
            await asyncio.sleep(600)
        case "panic":
            raise Panic("a Rust thread panicked")
        case "exit":
            raise SystemExit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "mute":
            raise Reject(Mute())  # type: ignore[arg-type]
        case "cancel":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        case "cancel_and_catch":  # as libraries do that know no `uncancel`
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(600)
        case "until_lost":
            while not run.lost:  # noqa: ASYNC110  a property is all that a handler has
                await asyncio.sleep(0.01)
        case "spend":
            run.spend(tokens=7)
        case "spend_later":  # a task that outlives its run
            _left_behind.append(asyncio.create_task(_pay_when_told(run)))
        case "collect":
            _told.set()
            await _left_behind.pop()
        case "swallow":
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                if "fail" in run.ticket.text:
                    raise ValueError("cancelled, and no good at it") from None
        case "spend_in_thread":
            await asyncio.to_thread(run.spend, tokens=7)
        case "pay":
            run.spend(tokens=5)
            Path(run.ticket.text.split(" ")[1]).touch()
        case _:
            pass


def _own_pipe() -> int:
    sockets = (number for number, name in _descriptors().items() if number > 2 and name == "socket")
    return next(number for number in sockets if os.get_blocking(number))  # those of the loop never block


def _descriptors() -> dict[int, str]:
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that lists the others
            found[int(entry.name)] = str(entry.readlink()).split(":")[0].removesuffix(" (deleted)")
    return found
