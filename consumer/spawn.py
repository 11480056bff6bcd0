"""The supervisor's end of the mold: starts it, asks it for workers, and ends it. The only place that starts processes.

A mold is a fresh `exec` of Python, never a fork of the supervisor, so it does not matter whether an event loop runs.
It must be started from the main thread: the kernel tells the mold of its parent's death when the *thread* ends that
started it (prctl(2), PR_SET_PDEATHSIG).
"""

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from consumer import memory
from consumer.pipe import ANSWERS, MAX_WORD_BYTES, STACK_SIGNAL, Fork, Preload, Record, decode, encode

_BOOT: Final = (
    "import gc, json, sys; gc.disable(); sys.path[:] = json.loads(sys.argv[1]); "
    "from consumer.worker.mold import main; gc.enable(); sys.exit(main(int(sys.argv[2])))"
)
_DESCRIPTORS: Final = 2
_STACK_BYTES: Final = 1 << 16
_KILL_LOOKS: Final = 20
_KILL_INTERVAL: Final = 0.05
"""Seconds. The supervisor holds its breath meanwhile; a killed process is there no longer after milliseconds. Looks are
counted, not one span of time, so that a machine that stood still has not lost a mold over it."""
_STATE, _PARENT, _EXIT_CODE = 0, 1, 49
"""Columns of proc(5) `stat` behind the name, which may contain anything."""


def _path_now() -> tuple[str, ...]:
    return tuple(os.path.abspath(entry) for entry in sys.path)  # noqa: PTH100 - "" means here


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """What a mold is to load: the handler, and the preflight's limits and vocabulary (C16)."""

    handler: str
    """`package.module:function`."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `gateway.preflight.Limits`; what is left out keeps its default. Plain values, for the supervisor has no
    use for what comes along with the class."""
    encoding: str = "o200k_base"
    depot: str = ""
    """Where attachments lie that do not travel."""
    warm: bool = False
    """Load the vocabulary in the mold, shared by all workers; else in each worker that comes to need it."""
    path: tuple[str, ...] = field(default_factory=_path_now)
    """Where modules are found, absolute: a mold that is started later, from elsewhere, must find the same ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEnds:
    """The supervisor's ends of a new worker's two pipes, both non-blocking, and the file that they share."""

    channel: socket.socket
    output: int
    stack: int
    """Where the worker writes its stacks: in memory, of a size that cannot change."""


class Mold:
    """One mold process and its control socket, which is non-blocking and keeps messages apart."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process = process
        self.control = control
        self.started = time.monotonic()

    @classmethod
    def start(cls, blueprint: Blueprint) -> "Mold":
        """Start a mold that loads what `blueprint` says; its first message tells how that went."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("the mold must be started from the main thread, or it dies with the thread that did")
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            control.setblocking(False)  # noqa: FBT003 - positional only
            # Said before anybody listens: then nothing that the new process does can make it fail.
            _send(
                control,
                Preload(
                    handler=blueprint.handler,
                    supervisor=os.getpid(),
                    encoding=blueprint.encoding,
                    limits=dict(blueprint.limits),
                    warm=blueprint.warm,
                    depot=blueprint.depot,
                ),
            )
            process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, json.dumps(blueprint.path), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=2,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except BaseException:
            control.close()
            raise
        finally:
            theirs.close()
        return cls(process, control)

    @property
    def pid(self) -> int:
        """The mold's process id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether the process is over; true before any worker can be seen to have died of that."""
        return self._process.poll() is not None

    @property
    def memory(self) -> tuple[int, int]:
        """Bytes that are resident now, and those of them that no file stands behind; zeros when it has ended."""
        try:
            statm = os.open(f"/proc/{self.pid}/statm", os.O_RDONLY | os.O_CLOEXEC)  # our child: the number is its own
        except OSError:
            return 0, 0
        try:
            return memory.resident(statm), memory.anonymous(statm)
        finally:
            os.close(statm)

    def fork(self, worker: int, *, hunt: int = 0) -> WorkerEnds:
        """Ask for a worker, one that tells where it grows every `hunt` runs if that is not 0.

        Raises OSError when the mold is gone, takes no more, or descriptors have run out.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        output = writing = stack = -1
        try:
            output, writing = os.pipe2(os.O_CLOEXEC)
            stack = _fixed_file("lz-stack", _STACK_BYTES)
            ours.setblocking(False)  # noqa: FBT003 - positional only
            os.set_blocking(output, False)
            _send(self.control, Fork(worker=worker, hunt=hunt), theirs.fileno(), writing, stack)
        except OSError:
            ours.close()
            _close(output, stack)
            raise
        finally:
            theirs.close()
            _close(writing)
        return WorkerEnds(channel=ours, output=output, stack=stack)

    def receive(self) -> tuple[Record, list[int]] | None:
        """Return the mold's next message and its descriptors; None at its end. Raises BlockingIOError, `Garbled`."""
        try:
            data, descriptors, _, _ = socket.recv_fds(
                self.control, MAX_WORD_BYTES, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError:
            return None
        return (decode(data, ANSWERS), descriptors) if data else None

    def leave(self) -> None:
        """Say that no more is wanted: the mold kills the workers that are left, reaps them and ends."""
        try:
            self.control.shutdown(socket.SHUT_WR)
        except OSError:
            return  # it has ended already

    def kill(self) -> int | None:
        """End the mold at once, wait for it and return its exit status; its workers die with it.

        None for one that even SIGKILL does not end now, because it hangs in the kernel (state D): it dies when it can,
        and `subprocess` waits for it then.
        """
        self.control.close()
        self._process.send_signal(signal.SIGKILL)
        for _ in range(_KILL_LOOKS):
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.wait(_KILL_INTERVAL)
        return None


def _send(control: socket.socket, record: Record, *descriptors: int) -> None:
    socket.send_fds(control, [encode(record)], descriptors)


def kill(pidfd: int) -> None:
    """Kill the process behind `pidfd`; one that has ended already is no error."""
    _signal(pidfd, signal.SIGKILL)


def ask_for_stack(pidfd: int) -> None:
    """Ask the worker behind `pidfd` to write down where it is."""
    _signal(pidfd, STACK_SIGNAL)


def _signal(pidfd: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return


def _fixed_file(name: str, size: int) -> int:
    """Return a file in memory of `size` bytes, which nobody who holds it can make larger or smaller."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
    return descriptor


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        if descriptor >= 0:
            os.close(descriptor)


def exit_status(pid: int, *, parent: int) -> int | None:
    """Return how a child of `parent` ended for which that has not waited yet, as waitpid gives it; else None.

    A number that was given out again is never taken for the worker: it is a zombie of its mold, or it is not asked.
    """
    try:
        columns = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        waits = columns[_STATE] == "Z" and int(columns[_PARENT]) == parent
        return int(columns[_EXIT_CODE]) if waits else None
    except (OSError, ValueError, IndexError):
        return None


def kill_group(pid: int) -> None:
    """Kill a worker and all that it has started; only before its mold has waited for it: `pid` is its own so long."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def reap_orphan(pidfd: int) -> None:
    """Wait for a worker whose mold died, if it became our child (a supervisor that is process 1 inherits orphans)."""
    try:
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return
