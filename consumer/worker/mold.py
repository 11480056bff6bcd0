"""The mold: loads the handler once, forks workers from itself on request, reaps them, takes them along when it ends.

One thread and no event loop, so that a fork copies nothing that could be held by somebody else. It is the workers'
parent; the supervisor reaches them only through the descriptors that the mold hands over, so no reused process id can
ever be killed by mistake.
"""

import contextlib
import ctypes
import faulthandler
import gc
import logging
import os
import resource
import select
import signal
import socket
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from consumer.pipe import (
    MAX_WORD_BYTES,
    WISHES,
    Fork,
    Forked,
    ForkFailed,
    Loaded,
    Preload,
    Reaped,
    Record,
    Unloadable,
    decode,
    encode,
)
from consumer.worker import stacks
from consumer.worker.goodbye import leave
from consumer.worker.loading import Handler, HandlerUnavailable, load
from consumer.worker.main import Seat, serve
from consumer.worker.native import speak_by_lines
from consumer.worker.reading import Reader, limits_from
from consumer.worker.runner import MAX_MESSAGE
from consumer.worker.strays import Strays
from consumer.worker.used import used
from gateway.contract.text import clip
from gateway.preflight import VocabularyError

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_PR_SET_CHILD_SUBREAPER: Final = 36
_OOM_SCORE: Final = 500
"""Raised, so that the kernel takes a worker before the mold and the mold before the supervisor."""
_DESCRIPTORS: Final = 3
_IGNORED: Final = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
"""As in any Python process: what went wrong is raised as an OSError."""
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Child:
    worker: int
    pid: int


class Mold:
    """The process that workers are forked from; `serve` returns once in the mold and once in every worker."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: dict[int, _Child] = {}
        self._poll = select.poll()
        self._handler: Handler | None = None
        self._reader: Reader | None = None
        self._supervisor = 0
        self._wakeup: tuple[int, ...] = ()
        self._strays: Strays | None = None

    def serve(self) -> Seat | None:
        """Serve until the supervisor is gone or says so by closing the control socket.

        Returns None in the mold when its work is over, and a `Seat` in each process that it forks.
        """
        first = self._receive()
        if first is None or not isinstance(first[0], Preload):
            return None
        if not self._preload(first[0]):
            return None
        strays = self._strays = Strays(self._poll)
        _adopt_orphans()
        wake, signalled = self._wakeup = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: None)  # the wakeup says it; polled below
        # Whoever ignores it has the kernel wait for all children, and how a worker died could not be told any more.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # The end of the socket says that the supervisor is gone; this wakes a mold that was stopped, so it can see.
        _die_with_parent(signal.SIGCONT, self._supervisor)
        self._poll.register(self._control, select.POLLIN)
        self._poll.register(wake, select.POLLIN)
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor in self._children:
                    self._reap(descriptor)
                    continue
                if descriptor in strays:
                    strays.reap(descriptor)
                    self._sweep()
                    continue
                request = self._receive() if descriptor == self._control.fileno() else None
                if request is None:
                    self._end()
                    return None
                if (seat := self._answer(*request)) is not None:
                    return seat

    def _answer(self, record: Record, descriptors: list[int]) -> Seat | None:
        match record, descriptors:
            case Fork() as wanted, [channel, output, stack]:
                seat = self._fork(wanted.worker, channel, output, stack)
                return None if seat is None else replace(seat, hunt=wanted.hunt)
            case _:
                raise AssertionError(f"the supervisor sent {type(record).__name__}")

    def _preload(self, wanted: Preload) -> bool:
        self._supervisor = wanted.supervisor
        _die_with_parent(signal.SIGKILL, wanted.supervisor)  # an import may take long, and nobody listens meanwhile
        _adjust_oom_score(_OOM_SCORE // 2)
        try:
            self._handler = load(wanted.handler)
            self._reader = Reader(limits=limits_from(wanted.limits), encoding=wanted.encoding, depot=wanted.depot)
            if wanted.warm:
                self._reader.warm()
        except HandlerUnavailable as error:
            self._say(Unloadable(message=clip(str(error), MAX_MESSAGE), traceback=error.traceback))
            return False
        except (VocabularyError, TypeError) as error:  # TypeError: a limit that there is not
            self._say(Unloadable(message=clip(str(error), MAX_MESSAGE), traceback=""))
            return False
        # What handlers log is evidence; one whose module has set up logging keeps its own way.
        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
        gc.collect()
        gc.freeze()  # what is loaded now is never looked at again, so its pages stay shared
        self._say(Loaded(build=self._handler.build, threads=sum(1 for _ in Path("/proc/self/task").iterdir())))
        return True

    def _fork(self, worker: int, channel: int, output: int, stack: int) -> Seat | None:
        sys.stdout.flush()
        sys.stderr.flush()
        # A signal between fork and the child's own settings would meet the mold's handlers (cpython#75670).
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        mold = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            self._say(ForkFailed(worker=worker, message=str(error)))
            pid = -1
        if pid == 0:
            return self._settle_in(channel, output, stack, mold, mask)
        for theirs in (channel, output, stack):
            os.close(theirs)
        if pid > 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            self._announce(_Child(worker=worker, pid=pid))
        return None

    def _settle_in(self, channel: int, output: int, stack: int, mold: int, mask: set[int | signal.Signals]) -> Seat:
        """Turn the fresh copy of the mold into a worker that shares nothing with it but memory."""
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_IGN if number in _IGNORED else signal.SIG_DFL)
        _die_with_parent(signal.SIGKILL, mold)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.dup2(output, 1)
        os.dup2(output, 2)
        # Only what is the mold's own: a file that the handler's module opened must not turn into a stranger's number.
        strays = self._strays.descriptors if self._strays is not None else ()
        for mine in (output, self._control.detach(), *self._wakeup, *self._children, *strays):
            os.close(mine)
        _adopt_orphans()  # while it lives, all that it has started can be seen below it
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _adjust_oom_score(_OOM_SCORE)
        _name_process("lz-worker")
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        faulthandler.disable()  # the mold's: its signal handlers were reset above, and it believes that they are there
        stacks.on_death(stack)
        speak_by_lines()
        gc.enable()
        if self._handler is None or self._reader is None:
            raise AssertionError("forked before the handler was loaded")
        return Seat(channel=socket.socket(fileno=channel), stack=stack, handler=self._handler, reader=self._reader)

    def _announce(self, child: _Child) -> None:
        # The child is not reaped before this returns, so its number still means it, and nobody else.
        pidfd = os.pidfd_open(child.pid)
        statm = os.open(f"/proc/{child.pid}/statm", os.O_RDONLY | os.O_CLOEXEC)
        self._children[pidfd] = child
        self._poll.register(pidfd, select.POLLIN)
        self._say(Forked(worker=child.worker, pid=child.pid), pidfd, statm)
        os.close(statm)

    def _reap(self, pidfd: int) -> None:
        child = self._children.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        # Whatever the worker had started dies with it; until it is waited for, no other group can have its number.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        _, status, usage = os.wait4(child.pid, 0)
        self._say(Reaped(worker=child.worker, status=status, peak_rss=usage.ru_maxrss * 1024, usage=used(usage)))
        self._sweep()

    def _sweep(self) -> None:
        if self._strays is not None:
            self._strays.sweep(frozenset(child.pid for child in self._children.values()))

    def _end(self) -> None:
        for pidfd in list(self._children):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            self._reap(pidfd)
        # The children of a stray come to us when it is dead; the supervisor ends a mold that takes too long over it.
        while self._strays:
            self._strays.reap(self._strays.descriptors[0])
            self._sweep()

    def _receive(self) -> tuple[Record, list[int]] | None:
        try:
            data, descriptors, _, _ = socket.recv_fds(
                self._control, MAX_WORD_BYTES, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError:
            return None
        return (decode(data, WISHES), descriptors) if data else None

    def _say(self, record: Record, *descriptors: int) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the end of the socket is seen by the poll
            socket.send_fds(self._control, [encode(record)], descriptors)


def _die_with_parent(number: signal.Signals, parent: int) -> None:
    """Have the kernel send `number` when the parent ends; if that has happened already, end now.

    The parent is asked for after the request, so that an end in between is seen by one or the other.
    """
    if _libc.prctl(_PR_SET_PDEATHSIG, number.value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os._exit(0)


def _adopt_orphans() -> None:
    """Become the parent of all that descends from this process and loses its own."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _adjust_oom_score(score: int) -> None:
    with contextlib.suppress(OSError):  # where the system forbids it, the kernel chooses as it likes
        Path("/proc/self/oom_score_adj").write_text(str(score))


def _name_process(name: str) -> None:
    _libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def main(control: int) -> int:
    """Be the mold on the control socket `control`, then, in each forked copy, be its worker; return the exit status.

    A worker that leaves in order does not return.
    """
    gc.disable()
    faulthandler.enable()
    _name_process("lz-mold")
    seat = Mold(socket.socket(fileno=control)).serve()
    if seat is not None:
        serve(seat)
        leave()
    return 0
