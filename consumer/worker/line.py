"""The worker's end of its pipe, and what of it a handler is given.

Owns the reading of that pipe: handlers may use threads of their own, so whoever waits for something reads for all the
others too, and nobody reads beside him. Never keeps a word of one run for the next.
"""

import contextlib
import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from consumer.pipe import ORDERS, Decoder, Lost, Noted, Order, Progress, Record, Spend, encode
from consumer.worker.runner import MAX_MESSAGE
from gateway.contract.text import clip

_READ_BYTES: Final = 1 << 16
"""A larger buffer is mapped and unmapped by the C library for each call, which costs six times the call."""


class Pipe:
    """Words go out at once; the supervisor's come in when somebody looks. Created after the fork."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        channel.settimeout(None)  # whatever default for sockets the handler's module may have set
        self._decoder = Decoder(ORDERS)
        self._sending = threading.Lock()
        self._heard = threading.Condition()
        self._listening = False
        self._ended = False
        self._orders: deque[Order] = deque()
        self._lost: set[str] = set()
        self._run = ""
        self._noted = 0
        self._pid = os.getpid()

    def next_order(self) -> Order | None:
        """End the run that there was and wait for the next order; None when the supervisor has closed the pipe."""
        with self._heard:
            self._run, self._noted = "", 0
            self._heard.notify_all()  # a thread that the run left behind waits for nothing any more
            self._listen_until(lambda: bool(self._orders))
            if not self._orders:
                return None
            order = self._orders.popleft()
            self._run = order.run
            self._lost &= {order.run}  # it may have come together with the order
            return order

    def say(self, record: Record) -> None:
        """Send one record; a supervisor that is gone cannot be told, and the end of the pipe says so soon enough."""
        with self._sending, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._channel.sendall(encode(record))

    def await_noted(self, run: str, number: int) -> None:
        """Wait until the run's report `number` is noted, or nobody is there any more who would."""
        if self._is_copy():
            return  # it cannot wait for words that it must leave to its parent
        with self._heard:
            self._listen_until(lambda: self._noted >= number or self._is_lost(run))

    def is_lost(self, run: str) -> bool:
        """Look, without waiting, whether the run's claim is gone; a supervisor that is gone has taken it along."""
        with self._heard:
            # Whoever listens takes it down at once; a child that the handler has forked reads nothing of its parent's.
            with contextlib.suppress(BlockingIOError):
                while not (self._listening or self._ended or self._is_copy()):
                    self._take_in(self._read(socket.MSG_DONTWAIT))
            return self._is_lost(run)

    def _is_lost(self, run: str) -> bool:
        return self._ended or run != self._run or run in self._lost

    def _is_copy(self) -> bool:
        return os.getpid() != self._pid

    def _listen_until(self, satisfied: Callable[[], bool]) -> None:
        """Read, or wait for the thread that does, until `satisfied` or the pipe has ended. Holds `_heard`."""
        while not (satisfied() or self._ended):
            if self._listening:
                self._heard.wait()
                continue
            self._listening = True
            self._heard.release()
            try:
                data = self._read()
            finally:
                self._heard.acquire()
                self._listening = False
                self._heard.notify_all()  # one of those that wait listens next
            self._take_in(data)

    def _read(self, flags: int = 0) -> bytes:
        try:
            return self._channel.recv(_READ_BYTES, flags)
        except ConnectionResetError:
            return b""

    def _take_in(self, data: bytes) -> None:
        for record in self._decoder.feed(data):
            match record:
                case Order():
                    self._orders.append(record)
                case Lost(run=run):
                    self._lost.add(run)
                case Noted(run=run, number=number) if run == self._run:
                    self._noted = max(self._noted, number)
        self._ended = not data
        self._heard.notify_all()


class RunLine:
    """One run's `Line`; once the run is over it says nothing more, whoever still holds it."""

    def __init__(self, pipe: Pipe, run: str) -> None:
        self._pipe = pipe
        self._run = run
        self._counting = threading.Lock()
        self._reports = 0

    def spend(self, tokens: int, usd: float) -> None:
        """Pass on what was spent since the last call, and wait until that is durable or the claim is gone."""
        with self._counting:  # numbers go out in their order, or one that is noted would vouch for one unheard
            self._reports += 1
            number = self._reports
            self._pipe.say(Spend(run=self._run, number=number, tokens=tokens, usd=usd))
        self._pipe.await_noted(self._run, number)

    def progress(self, text: str) -> None:
        """Pass on last words."""
        self._pipe.say(Progress(run=self._run, text=clip(str(text), MAX_MESSAGE)))

    def lost(self) -> bool:
        """Look, without waiting, whether the claim was taken away."""
        return self._pipe.is_lost(self._run)
