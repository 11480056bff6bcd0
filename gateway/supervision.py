"""Several processes that are one door: started, replaced when they die, told to end, on one port.

Owns the forks, the signals and the exit code, as a process of its own that serves nothing and knows no broker. It forks
before there is a loop or a thread, so that the vocabulary, loaded once, is shared. Who dies is replaced, later each
time it dies young; when this process dies, the kernel tells the others to end.
"""

import ctypes
import logging
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from prometheus_client import Counter, Gauge

from gateway.contract import logs
from gateway.membership import Membership, Standing
from gateway.recent import SharedMemory
from gateway.setting_values import Address
from gateway.settings import DoorSettings
from gateway.shared_figures import SharedFigures

log = logging.getLogger("gateway.supervision")

OUR_BUG: Final = 1
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_ENDING: Final = frozenset({signal.SIGTERM, signal.SIGINT})
_YOUNG: Final = 10.0
"""Seconds; who dies younger waits longer for a successor."""
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
_MOST_DOUBLINGS: Final = 10
"""Enough for the longest pause; a place can die young for a whole night, and powers beyond 1023 are no float."""
_BEYOND_THE_GRACE: Final = 5.0
"""Seconds that a process may take to end beyond its grace, before it is killed."""
_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class PortTaken(Exception):
    """Somebody else listens where this door should; the text says where."""


class NoProcess(Exception):
    """Not one process could begin; `code` is the exit code of the last."""

    def __init__(self, code: int) -> None:
        super().__init__(f"no process of this door could begin: exit code {code}")
        self.code = code


Run = Callable[[DoorSettings, Membership, Callable[[], object]], int]
"""Is a process of a door; calls its last argument once it listens, and returns its exit code."""


@dataclass(slots=True)
class _Process:
    """One place, and who has it."""

    place: int
    pid: int = 0
    since: float = 0.0
    opening: int = -1
    """The end of a pipe that tells when it listens; -1 afterwards."""
    opened: bool = False
    deaths: int = 0
    """In a row, young."""
    due: float = 0.0


class Supervisor:
    """Runs the processes of one door."""

    def __init__(self, settings: DoorSettings, run: Run, announce: Callable[[str], None]) -> None:
        self._settings = settings
        self._run = run
        self._announce = announce
        self._processes = [_Process(place) for place in range(settings.door_workers)]
        self._standing = Standing(settings.door_workers)
        self._recent = SharedMemory(settings.door_workers)
        self._selector = selectors.DefaultSelector()
        self._ever_opened = False
        self._announced = False
        self._end: float | None = None

    def supervise(self) -> None:
        """Run until told to end, and until all have; raises PortTaken, NoProcess, OSError."""
        address = self._settings.door
        with _reserved(address) as reserved:
            self._settings = self._settings.model_copy(
                update={"door": Address(address.host, reserved.getsockname()[1])}
            )
            folder = self._settings.data / f"door-{self._settings.door.port}.figures"
            self._figures = SharedFigures(Path(folder).absolute())
            self._figures.begin()
            self._figures.prepare("supervisor")
            self._figures.join("supervisor")
            self._restarts = Counter("lazaretto_door_restarts", "Processes that died and were replaced.", registry=None)
            self._alive = Gauge(
                "lazaretto_door_processes", "Processes of this door.", registry=None, multiprocess_mode="max"
            )
            try:
                self._attend()
            finally:
                for process in self._processes:
                    _signal(process, signal.SIGKILL)
                self._figures.end()

    def _attend(self) -> None:
        woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(woken, selectors.EVENT_READ)
        # The pipe first: a signal that finds the handler and no pipe would be gone without a trace.
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)  # the number arrives through the pipe
        while self._end is None or any(process.pid for process in self._processes):
            self._fill()
            for key, _ in self._selector.select(self._patience()):
                if key.fd == woken:
                    for heard in os.read(woken, 4096):
                        self._hear(signal.Signals(heard))
                else:
                    self._see_opened(key.data)
            self._reap()
            if self._end is not None and time.monotonic() > self._end:
                for process in self._processes:
                    _signal(process, signal.SIGKILL)
        logs.event(log, "door_processes_ended")

    def _hear(self, number: signal.Signals) -> None:
        if number is signal.SIGCHLD:
            return
        for process in self._processes:
            _signal(process, number)
        if number in _ENDING and self._end is None:
            logs.event(log, "ending", signal=number.name)
            self._end = time.monotonic() + self._settings.drain_grace + _BEYOND_THE_GRACE

    def _patience(self) -> float | None:
        """Return for how many seconds there is nothing to do but listen."""
        moments = [process.due for process in self._processes if not process.pid and self._end is None]
        if self._end is not None:
            moments.append(self._end)
        return max(0.0, min(moments) - time.monotonic()) if moments else None

    def _fill(self) -> None:
        for process in self._processes:
            if not process.pid and self._end is None and time.monotonic() >= process.due:
                try:
                    self._start(process)
                except OSError as error:  # a full disk, no more processes: the others serve on
                    if not self._ever_opened:
                        raise
                    pause = self._put_off(process)
                    logs.event(
                        log, "door_process_not_begun", logging.ERROR, place=process.place, error=error, again_in=pause
                    )
        self._alive.set(sum(1 for process in self._processes if process.pid))

    def _start(self, process: _Process) -> None:
        self._figures.prepare(process.place)
        opening, told = os.pipe2(os.O_CLOEXEC)
        supervisor = os.getpid()
        # No signal may find a child that still has the handlers, and the pipe, of its parent.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                self._become(process, supervisor, told)
        except OSError:
            os.close(opening)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            os.close(told)
        process.pid, process.since, process.opening, process.opened = pid, time.monotonic(), opening, False
        self._standing.put(process.place, pid, ready=False)
        self._selector.register(opening, selectors.EVENT_READ, process)

    def _become(self, process: _Process, supervisor: int, told: int) -> NoReturn:
        """Be the process of a place, from the fork to its end."""
        code = OUR_BUG
        try:
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                # At a hang-up it would die where it has read nothing yet; it reads everything when it begins.
                signal.signal(number, signal.SIG_IGN if number is signal.SIGHUP else signal.SIG_DFL)
            self._selector.close()
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != supervisor:  # which died before it could be said
                os.kill(os.getpid(), signal.SIGTERM)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            self._figures.join(process.place)
            code = self._run(
                self._settings,
                Membership(place=process.place, standing=self._standing, figures=self._figures, recent=self._recent),
                lambda: os.write(told, b"!"),
            )
        except BaseException:
            log.exception("door_process_failed")
        finally:
            logging.shutdown()
            sys.stdout.flush()
            os._exit(code)

    def _see_opened(self, process: _Process) -> None:
        process.opened = bool(os.read(process.opening, 1))
        self._close_opening(process)
        self._ever_opened = self._ever_opened or process.opened
        if not self._announced and all(each.opened for each in self._processes):
            self._announced = True
            scheme = "http" if self._settings.tls_certificate is None else "https"
            self._announce(f"door: {scheme}://{self._settings.door}")

    def _close_opening(self, process: _Process) -> None:
        if process.opening >= 0:
            self._selector.unregister(process.opening)
            os.close(process.opening)
            process.opening = -1

    def _put_off(self, process: _Process) -> float:
        """Have a place wait for its next process, longer each time in a row; return for how many seconds."""
        process.deaths += 1
        pause: float = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(process.deaths - 1, _MOST_DOUBLINGS))
        process.due = time.monotonic() + pause
        return pause

    def _reap(self) -> None:
        for process in self._processes:
            if process.pid:
                pid, status = os.waitpid(process.pid, os.WNOHANG)
                if pid:
                    self._bury(process, os.waitstatus_to_exitcode(status))

    def _bury(self, process: _Process, code: int) -> None:
        if process.opening >= 0 and not process.opened:
            self._see_opened(process)  # it may have listened a moment before it died
        now = time.monotonic()
        age = now - process.since
        pid, process.pid = process.pid, 0
        self._standing.put(process.place, 0, ready=False)
        self._figures.forget(process.place)
        if self._end is not None:
            return
        if not self._ever_opened and (code > OUR_BUG or all(not each.pid for each in self._processes)):
            for each in self._processes:
                _signal(each, signal.SIGTERM)
            raise NoProcess(code if code > 0 else OUR_BUG)
        process.due, pause = now, 0.0
        if age < _YOUNG:
            pause = self._put_off(process)
        else:
            process.deaths = 0
        self._restarts.inc()
        logs.event(log, "door_process_died", logging.ERROR, pid=pid, place=process.place, code=code, again_in=pause)


def _signal(process: _Process, number: signal.Signals) -> None:
    if process.pid:
        os.kill(process.pid, number)  # ours until it is waited for, so it cannot be another's


def _reserved(address: Address) -> socket.socket:
    """Take the port for processes that share it, without listening; raises PortTaken."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _bind(probe, address)  # which another door's processes, sharing their port, do not let happen
    reserved = socket.socket(family)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    _bind(reserved, address)
    return reserved


def _bind(taking: socket.socket, address: Address) -> None:
    try:
        taking.bind((address.host, address.port))
    except OSError as error:
        taking.close()
        raise PortTaken(f"cannot listen on {address}: {error.strerror or error}") from error
