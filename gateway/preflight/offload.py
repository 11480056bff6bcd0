"""Where an examination runs: small ones at once, large ones in a process of their own, and never too many.

Owns that process and the queue before it. Not for workers, which have no event loop to protect.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from gateway.admission import Limits, Refused
from gateway.contract import logs
from gateway.preflight.examination import Passed, examine
from gateway.preflight.examining import LENGTH, Order, Verdict, command, legible, naming, packed, verdict_of
from gateway.preflight.ticket import Submission
from gateway.preflight.tokens import OutOfTime
from gateway.preflight.vocabulary import Vocabulary

log = logging.getLogger("gateway.examiner")

INLINE_BYTES = 16_384
"""Up to this size each check takes at most about 4 ms: less than to hand it over costs under load."""

QUEUED = 16

_LARGEST_CHARACTER: Final = 2
"""Bytes of UTF-8 that one byte of a body can become, at most: `é` in latin1, a kana in UTF-16."""
_START_AFTER: Final = 3.0
"""Seconds after which the process is started though nothing needs it: then the first large body need not wait."""
_PATIENCE: Final = 2.0
"""Seconds beyond the deadline, which is looked at between steps, after which the process hangs."""
_REAPING: Final = 0.01


@dataclass(frozen=True, slots=True)
class Busy:
    """Too many large bodies wait to be examined already, or nobody is there to do it: says nothing about the input."""


class ExaminationFailed(Exception):
    """Our own bug: the preflight raised; the text is its trace."""


class Examiner:
    """Examines submissions for a server. Close it when the server has stopped."""

    def __init__(
        self,
        limits: Limits,
        vocabulary: Vocabulary,
        *,
        seconds: float,
        queued: int = QUEUED,
        took: Callable[[float], None] = lambda _: None,
    ) -> None:
        """`seconds` is what one examination may take, its wait included; `queued` how many may wait or run.

        `took` is told how long each examination took, its wait included: once, whoever asked for it.
        """
        self._took = took
        self.limits = limits
        self.vocabulary = vocabulary
        caps = (own.max_tokens for own in limits.kinds.values())
        self._least_cap = min([limits.max_tokens, *(cap for cap in caps if cap is not None)])
        self._seconds = seconds
        self._queued = queued
        self._outstanding = 0
        self._turn = asyncio.Lock()
        self._process: _Process | None = None
        self._closed = False
        self._last: tuple[Submission, Passed | Refused | OutOfTime] | None = None

    @property
    def pid(self) -> int | None:
        """The process that examines large bodies; None while there is none."""
        return None if self._process is None else self._process.pid

    async def run(self) -> None:
        """Have the process ready before it is needed; until cancelled."""
        await asyncio.sleep(_START_AFTER)
        async with self._turn:
            await self._started()  # where it cannot be, the first large body tries again
        await asyncio.Event().wait()

    def close(self) -> None:
        """End the process; what waits for it is out of time."""
        self._closed = True
        if self._process is not None:
            self._process.end()

    async def examine(
        self, submission: Submission, limits: Limits | None = None, *, client: str
    ) -> Passed | Refused | OutOfTime | Busy:
        """Examine `submission` within the seconds set. A caller that gives up frees the place of one that waits.

        `limits` are the examiner's own unless others are named. Of a large ticket, text and attributes stay away: there
        is a digest of them and of `client` in their place. Raises ExaminationFailed.
        """
        last, self._last = self._last, None
        if last is not None and (limits is None or limits is self.limits) and last[0] == submission:
            return last[1]  # `at_once` has just come to it
        started = time.monotonic()
        chosen = self.limits if limits is None else limits
        verdict = await self._examined(submission, chosen, client, started + self._seconds)
        self._took(time.monotonic() - started)
        return verdict

    async def _examined(
        self, submission: Submission, limits: Limits, client: str, deadline: float
    ) -> Passed | Refused | OutOfTime | Busy:
        if self._is_quick(submission):
            return examine(submission, limits, self.vocabulary, deadline=deadline)
        if self._outstanding >= self._queued:
            return Busy()
        self._outstanding += 1
        try:
            async with self._turn:
                if self._closed or time.monotonic() > deadline:
                    return OutOfTime()
                process = await self._started()
                if process is None:
                    return Busy()
                return await process.examine(submission, limits, client, deadline)
        finally:
            self._outstanding -= 1

    def at_once(self, submission: Submission) -> Passed | None:
        """Return the verdict on a submission that is quickly found to be faultless; None leaves it to `examine`.

        Whatever it is, it is not found again where `examine` is asked next for the same.
        """
        if not self._is_quick(submission):
            return None
        started = time.monotonic()
        verdict = examine(submission, self.limits, self.vocabulary)
        self._took(time.monotonic() - started)
        self._last = (submission, verdict)
        return verdict if isinstance(verdict, Passed) else None

    def _is_quick(self, submission: Submission) -> bool:
        """Tell whether it is small, and no vocabulary, which this process does without, can be needed for it."""
        size = len(submission.body)
        small = size <= INLINE_BYTES and submission.content_encoding is None
        return small and _LARGEST_CHARACTER * size <= self._least_cap

    async def _started(self) -> _Process | None:
        """Return a process that works, a new one if need be; None where the system gives none."""
        if self._process is not None and not self._process.ended:
            return self._process
        try:
            self._process = await _Process.start(self.vocabulary)
        except OSError as error:  # no more processes, descriptors or memory for now: small bodies come in all the same
            logs.event(log, "examiner_not_started", logging.ERROR, error=error)
            return None
        if self._closed:
            self._process.end()
        return self._process


class _Process:
    """One process from its start to its end, and the orders that it has not answered."""

    def __init__(
        self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._writer = writer
        self._ending = False
        self._numbers = itertools.count()
        self._pending: dict[int, asyncio.Future[Verdict | None]] = {}
        self._listening = asyncio.create_task(self._listen(reader))

    @classmethod
    async def start(cls, vocabulary: Vocabulary) -> _Process:
        """Start one; raises OSError."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = subprocess.Popen(  # noqa: ASYNC220 - a fork and an exec, milliseconds
                    command(theirs.fileno()),
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        writer.write(packed(naming(vocabulary)))
        return cls(process, reader, writer)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it takes nothing any more."""
        return self._ending or self._listening.done()

    async def examine(
        self, submission: Submission, limits: Limits, client: str, deadline: float
    ) -> Passed | Refused | OutOfTime:
        """Have one submission examined; raises ExaminationFailed."""
        number = next(self._numbers)
        order = packed(
            Order(number=number, client=client, submission=legible(submission), limits=limits, deadline=deadline)
        )
        answer: asyncio.Future[Verdict | None] = asyncio.get_running_loop().create_future()
        self._pending[number] = answer
        self._writer.write(order)
        try:
            await asyncio.wait({answer}, timeout=deadline + _PATIENCE - time.monotonic())
        finally:
            del self._pending[number]
        verdict = answer.result() if answer.done() else None
        if verdict is None:
            self.end()
            return OutOfTime()
        if verdict.failure:
            raise ExaminationFailed(verdict.failure)
        return verdict.found

    def end(self) -> None:
        """End it now, whatever it is at."""
        self._ending = True
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                (size,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
                verdict = verdict_of(await reader.readexactly(size))
                self._tell(verdict.number, verdict)
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.DecodeError):
            self.end()
            while self._process.poll() is None:  # noqa: ASYNC110 - it is killed: the next look, as a rule, is the last
                await asyncio.sleep(_REAPING)
        finally:
            self.end()
            code = self._process.wait()
            self._writer.close()
            if self._pending:
                logs.event(log, "examiner_ended", logging.WARNING, code=code)
            for number in list(self._pending):
                self._tell(number, None)

    def _tell(self, number: int, verdict: Verdict | None) -> None:
        answer = self._pending.get(number)
        if answer is not None and not answer.done():
            answer.set_result(verdict)
