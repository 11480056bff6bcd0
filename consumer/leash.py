"""The supervisor's hold on one worker: its pipe, its output, its pidfd, its memory.

Owns these descriptors and their buffers. Decides nothing: what comes in is handed to `Listener`, and a worker whose
pipe has ended or carries nonsense is only reported.
"""

import asyncio
import os
import select
import socket
from collections.abc import Callable
from typing import Final, Protocol

from consumer import memory, spawn
from consumer.output import Output
from consumer.pipe import WORDS, Decoder, Garbled, Record, encode
from consumer.spawn import WorkerEnds
from consumer.usage import Usage

_READ_BYTES: Final = 1 << 16
_HEAR_BYTES: Final = 1 << 14
"""Of a worker's words, in one turn of the loop: one that never stops speaking must not have the loop to itself."""
_MOST_SHARES: Final = 64
"""In one `read`: four times what a socket holds that nobody has enlarged."""
_STACK_INTERVAL: Final = 0.05
_STACK_LOOKS: Final = 40
"""Looks at the file for stacks, one each interval, before a worker that cannot even write is killed without."""


class Listener(Protocol):
    """Who hears what a worker says."""

    def on_record(self, leash: "Leash", record: Record) -> None:
        """The worker has sent a record."""

    def on_nonsense(self, leash: "Leash", why: str) -> None:
        """The worker's pipe has ended or carries what is no record."""

    def on_output(self, leash: "Leash", lines: list[str], dropped: int) -> None:
        """The worker has printed."""


class Leash:
    """One worker, from the request for it to its death. `close` it exactly once."""

    def __init__(
        self, worker: int, ends: WorkerEnds, listener: Listener, *, mold: int, build: str, hunted: bool
    ) -> None:
        self.worker = worker
        self.mold = mold
        self.build = build
        self.hunted = hunted
        """It traces its memory, and is never recycled."""
        self.pid = 0
        self.pidfd: int | None = None
        self.output = Output()
        self.resets_peak = False
        self.runs = 0
        self.doomed = False
        """To be killed as soon as there is a pidfd."""
        self.ready = False
        """It has said that it can take orders."""
        self.orphaned = False
        """Its mold is gone, so nobody will tell how it ended."""
        self.ended = False
        """Its process is over, and its mold has not told how yet."""
        self.status: int | None = None
        """How it ended, if that could be seen before its mold told."""
        self.closed = False
        self._statm: int | None = None
        self._rollup: int | None = None
        self._signs = select.poll()
        """Of its output, and of its end."""
        self._channel = ends.channel
        self._printed = ends.output
        self._stack: int | None = ends.stack
        self._asking: asyncio.TimerHandle | None = None
        self.used = Usage()
        """What it had used when its last run ended."""
        self.stack = ""
        """Its stacks, if it has written them; known at the end."""
        self._listener = listener
        self._decoder = Decoder(WORDS)
        self._unsent = bytearray()
        self._loop = asyncio.get_running_loop()
        self._hears = True
        self._loop.add_reader(self._channel, self._hear)
        self._loop.add_reader(self._printed, self.read_output)
        self._signs.register(self._printed, select.POLLIN)

    def attach(self, pid: int, pidfd: int, statm: int, *, ended: Callable[["Leash"], None]) -> None:
        """Take the descriptors that the mold made for the new process; `ended` is called once, when that is over."""
        self.pid, self.pidfd, self._statm = pid, pidfd, statm
        self._rollup = memory.open_rollup(pid, pidfd)
        self._signs.register(pidfd, select.POLLIN)
        self._loop.add_reader(pidfd, self._see_end, ended)
        if self.doomed:
            self.kill()

    def resident(self) -> int:
        """Return the worker's resident memory now, in bytes."""
        return memory.resident(self._statm) if self._statm is not None else 0

    def footprint(self, limit: int) -> int:
        """Return the worker's resident memory and that of all processes below it, in bytes, to be held to `limit`."""
        own = self.resident()
        return own + memory.beneath(self.pid, limit - own) if own > 0 and self.pidfd is not None else own

    def private(self) -> int:
        """Return the bytes that only this worker has now; takes milliseconds, see `recycle.LOOK_SECONDS`."""
        return memory.private(self._rollup, self._statm) if self._statm is not None else 0

    def catch_up(self) -> bool:
        """Take in what it has printed; return whether its process has ended, also if nobody has been told yet.

        For most runs nothing of that has happened, so one call looks for both.
        """
        if self.pidfd is None:
            return self.closed
        seen = [descriptor for descriptor, _ in self._signs.poll(0)]
        if self._printed in seen:
            self.read_output()
        return self.pidfd in seen

    def kill(self) -> None:
        """Kill the worker, or see to it that it is killed once its process is known."""
        self.doomed = True
        if self.pidfd is not None:
            spawn.kill(self.pidfd)

    def kill_when_asked(self) -> None:
        """Have the worker write down where it hangs, then kill it: at once after its answer, or without one."""
        if self._asking is not None or self.doomed:
            return
        if self.pidfd is None:
            self.kill()
            return
        spawn.ask_for_stack(self.pidfd)
        self._asking = self._loop.call_later(_STACK_INTERVAL, self._await_stack, "", _STACK_LOOKS)

    @property
    def asked(self) -> bool:
        """Whether it was asked where it hangs; then it is as good as killed."""
        return self._asking is not None

    def _await_stack(self, before: str, looks: int) -> None:
        now = self._read_stack()
        if looks == 0 or (now and now == before):
            self.kill()
        else:
            self._asking = self._loop.call_later(_STACK_INTERVAL, self._await_stack, now, looks - 1)

    def _read_stack(self) -> str:
        if self._stack is None:
            return self.stack
        return os.pread(self._stack, _READ_BYTES, 0).rstrip(b"\0").decode("utf-8", "replace")

    def send(self, record: Record) -> None:
        """Send a record, at once as far as the pipe takes it; a worker that is dying needs no more orders."""
        if self._unsent:
            self._unsent += encode(record)
            return
        data = encode(record)
        sent = self._write(data)
        if sent < len(data):
            self._unsent += memoryview(data)[sent:]
            self._loop.add_writer(self._channel, self._flush)

    def dismiss(self) -> None:
        """Send no more: the worker sees the end of its pipe after its run and leaves."""
        try:
            self._channel.shutdown(socket.SHUT_WR)
        except OSError:
            return  # it has left already

    def read(self) -> None:
        """Read all that the worker has said so far."""
        shares = 0
        while self._hears and shares < _MOST_SHARES and self._hear():
            shares += 1

    def read_output(self) -> None:
        """Read what the worker has printed, a bounded share at a time."""
        try:
            data = os.read(self._printed, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        if not data:
            if self._loop.remove_reader(self._printed):
                self._signs.unregister(self._printed)
            return
        lines, dropped = self.output.feed(data, self._loop.time())
        if lines or dropped:
            self._listener.on_output(self, lines, dropped)

    def close(self) -> None:
        """Read what is left of a dead worker and let go of it."""
        self.closed = True
        self.read()
        self.read_output()
        if rest := self.output.rest():
            self._listener.on_output(self, [rest], 0)
        self.stack = self._read_stack()
        if self._asking is not None:
            self._asking.cancel()
        self._hears = False
        self._loop.remove_reader(self._channel)
        self._loop.remove_writer(self._channel)
        self._loop.remove_reader(self._printed)
        if self.pidfd is not None:
            self._loop.remove_reader(self.pidfd)
        self._channel.close()
        for descriptor in (self._printed, self._stack, self.pidfd, self._statm, self._rollup):
            if descriptor is not None:
                os.close(descriptor)
        self.pidfd = self._statm = self._stack = self._rollup = None

    def _hear(self) -> bool:
        """Read a share of what the worker has said; whether there may be more."""
        try:
            data = self._channel.recv(_HEAR_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        try:
            for record in self._decoder.feed(data):
                self._listener.on_record(self, record)
        except Garbled as error:
            self._deaf(str(error))
        if not data:
            self._deaf("its pipe was closed")
        return len(data) == _HEAR_BYTES

    def _see_end(self, ended: Callable[["Leash"], None]) -> None:
        assert self.pidfd is not None  # noqa: S101 - it is what was waited on
        self._loop.remove_reader(self.pidfd)
        ended(self)

    def _deaf(self, why: str) -> None:
        if self._hears:
            self._hears = False
            self._loop.remove_reader(self._channel)
            self._listener.on_nonsense(self, why)

    def _write(self, data: bytes | bytearray) -> int:
        try:
            return self._channel.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            return len(data)  # nobody reads any more; its end is reported where it is read

    def _flush(self) -> None:
        del self._unsent[: self._write(self._unsent)]
        if not self._unsent:
            self._loop.remove_writer(self._channel)
