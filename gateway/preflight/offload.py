"""Where an examination runs: small ones at once, large ones on a thread of their own, and never too many.

Owns that thread and its queue. Not for workers, which have no event loop to protect. The default executor is left
alone: it also looks up names, and more threads only fight for the interpreter lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from gateway.admission import Limits, Refused
from gateway.preflight.examination import Passed, examine
from gateway.preflight.ticket import Submission
from gateway.preflight.tokens import OutOfTime
from gateway.preflight.vocabulary import Vocabulary

INLINE_BYTES = 16_384
"""Up to this size each check takes at most about 4 ms: less than a thread costs under load."""

QUEUED = 16

_NICE = 5
"""Steps of priority that the thread gives up. More would let others hold it up while it holds the interpreter."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Too many large bodies wait to be examined already: says nothing about the input."""


def _step_back() -> None:
    """Let the loop go first where there is no core for both: on Linux a thread has a priority of its own."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


class Examiner:
    """Examines submissions for a server. Close it when the server has stopped."""

    def __init__(self, limits: Limits, vocabulary: Vocabulary, *, seconds: float, queued: int = QUEUED) -> None:
        """`seconds` is what one examination may take, its wait included; `queued` how many may wait or run."""
        self.limits = limits
        self.vocabulary = vocabulary
        self._seconds = seconds
        self._queued = queued
        self._outstanding: list[Future[Passed | Refused | OutOfTime]] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="examiner", initializer=_step_back)

    def close(self) -> None:
        """Drop what waits and let the thread end."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def examine(
        self, submission: Submission, limits: Limits | None = None
    ) -> Passed | Refused | OutOfTime | Busy:
        """Examine `submission` within the seconds set. A caller that gives up frees the place of one that waits.

        `limits` are the examiner's own unless others are named.
        """
        limits = self.limits if limits is None else limits
        deadline = time.monotonic() + self._seconds
        if len(submission.body) <= INLINE_BYTES and submission.content_encoding is None:
            return examine(submission, limits, self.vocabulary, deadline=deadline)
        self._outstanding = [future for future in self._outstanding if not future.done()]
        if len(self._outstanding) >= self._queued:
            return Busy()
        running = self._thread.submit(self._on_thread, submission, limits, deadline)
        self._outstanding.append(running)
        return await asyncio.wrap_future(running)

    def _on_thread(self, submission: Submission, limits: Limits, deadline: float) -> Passed | Refused | OutOfTime:
        if time.monotonic() > deadline:
            return OutOfTime()
        return examine(submission, limits, self.vocabulary, deadline=deadline)
