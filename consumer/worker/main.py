"""A worker's life after the fork: take an order, run it, say how it went, until the pipe ends.

Owns the worker's end of its pipe. One thread of its own, one run at a time, nothing kept from one run to the next.
"""

import asyncio
import contextlib
import os
import resource
import socket
import sys
import threading
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from consumer.pipe import MAX_ORDER_BYTES, Decoder, Finished, Lost, Order, Progress, Ready, Record, Spend, encode
from consumer.worker.loading import Handler
from consumer.worker.reading import Reader
from consumer.worker.runner import MAX_MESSAGE, prepare, run_to_end
from gateway.contract.text import clip

_READ_BYTES: Final = 1 << 18
_HEADROOM: Final = 256 * 1024 * 1024
"""Address space beyond twice the ceiling: the last wall must not be hit by what is mapped but never touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """What a fresh worker is born with."""

    channel: socket.socket
    handler: Handler
    reader: Reader


class PipeLine:
    """The run's `Line`: words go out at once; the supervisor's come in when somebody looks.

    Handlers may use threads of their own, so every use of the socket is under one lock, created after the fork.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._decoder = Decoder(limit=MAX_ORDER_BYTES)
        self._waiting: deque[Record] = deque()
        self._lock = threading.Lock()
        self._lost = False
        self._run = ""

    def next_order(self) -> Order | None:
        """Wait for the next order; None when the supervisor has closed the pipe."""
        while True:
            while self._waiting:
                if isinstance(record := self._waiting.popleft(), Order):
                    self._run, self._lost = record.run, False
                    return record
            if not self._receive(0):
                return None

    def say(self, record: Record) -> None:
        """Send one record; a supervisor that is gone cannot be told, and the end of the pipe says so soon enough."""
        with self._lock, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._channel.sendall(encode(record))

    def spend(self, tokens: int, usd: float) -> None:
        """Pass on what was spent since the last call."""
        self.say(Spend(tokens=tokens, usd=usd))

    def progress(self, text: str) -> None:
        """Pass on last words."""
        self.say(Progress(text=clip(str(text), MAX_MESSAGE)))

    def lost(self) -> bool:
        """Look, without waiting, whether the claim was taken away; a supervisor that is gone has taken it along."""
        with self._lock:
            try:
                while not self._lost:
                    # It may have come together with the order, so what is here already is looked at first.
                    self._lost = Lost(run=self._run) in self._waiting or not self._receive(socket.MSG_DONTWAIT)
            except BlockingIOError:
                pass
            return self._lost

    def _receive(self, flags: int) -> bool:
        try:
            data = self._channel.recv(_READ_BYTES, flags)
        except ConnectionResetError:
            return False
        self._waiting.extend(self._decoder.feed(data))
        return bool(data)


def serve(seat: Seat) -> int:
    """Serve orders until the pipe ends and return the exit status; a handler's `SystemExit` passes through."""
    line = PipeLine(seat.channel)
    wall = _Wall()
    with (
        Path("/proc/self/clear_refs").open("wb", buffering=0) as peak,
        contextlib.closing(asyncio.new_event_loop()) as loop,
    ):
        asyncio.set_event_loop(loop)
        line.say(Ready(resets_peak=_reset(peak.fileno())))
        while (order := line.next_order()) is not None:
            _reset(peak.fileno())
            wall.build(order.memory_limit)
            finished = _run(seat, order, line, loop)
            sys.stdout.flush()
            sys.stderr.flush()
            line.say(finished)
            if finished.last:
                break
            del order, finished  # nothing of a ticket stays while the worker waits for the next
    return 0


def _run(seat: Seat, order: Order, line: PipeLine, loop: asyncio.AbstractEventLoop) -> Finished:
    match prepare(order, seat.reader, line, line.say):
        case Finished() as refusal:
            return refusal
        case run:
            finished = run_to_end(seat.handler, run, order.run, loop)
            return finished if _swept(loop) else replace(finished, last=True)


def _swept(loop: asyncio.AbstractEventLoop) -> bool:
    """End what a handler left running on the loop: the next ticket must not share its worker with the last one's.

    False when something refuses to end within a second; then the worker must.
    """
    left = asyncio.all_tasks(loop)
    if not left:
        return True
    for task in left:
        task.cancel()
    _, alive = loop.run_until_complete(asyncio.wait(left, timeout=1))
    return not alive


class _Wall:
    """The address-space limit: stops what allocates faster than the supervisor looks."""

    def __init__(self) -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        self._mapped = pages * os.sysconf("SC_PAGE_SIZE")
        self._limit = 0

    def build(self, memory_limit: int) -> None:
        if memory_limit != self._limit:
            _, hard = resource.getrlimit(resource.RLIMIT_AS)
            soft = self._mapped + 2 * memory_limit + _HEADROOM
            resource.setrlimit(resource.RLIMIT_AS, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
            self._limit = memory_limit


def _reset(descriptor: int) -> bool:
    """Set the peak of resident memory back to what is resident now (proc(5), clear_refs), where the kernel can."""
    try:
        os.write(descriptor, b"5")
    except OSError:
        return False
    return True
