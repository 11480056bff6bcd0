"""Large bodies wait for one thread in a short queue; small ones and the event loop do not wait for them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.admission import Limits
from gateway.preflight import OutOfTime, Passed, Submission, Vocabulary
from gateway.preflight.offload import INLINE_BYTES, Busy, Examiner

SMALL = Submission(body=b"hello", content_type="text/plain", kind="k")
LARGE = Submission(body=b"hello " * INLINE_BYTES, content_type="text/plain", kind="k")


@pytest.fixture
async def examiner(vocabulary: Vocabulary) -> AsyncIterator[Examiner]:
    examiner = Examiner(Limits(), vocabulary, seconds=30, queued=2)
    yield examiner
    examiner.close()


class _Held:
    """The examiner's thread, held up by an honest task of our own until released."""

    def __init__(self, examiner: Examiner) -> None:
        self._release = threading.Event()
        examiner._thread.submit(self._release.wait, 30)  # noqa: SLF001 - there is no other way to hold the thread

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._release.set()


async def test_small_and_large_bodies_get_the_same_examination(examiner: Examiner) -> None:
    assert isinstance(await examiner.examine(SMALL), Passed)
    assert isinstance(await examiner.examine(LARGE), Passed)


async def test_a_full_queue_answers_busy_at_once_and_small_bodies_pass_it(examiner: Examiner) -> None:
    with _Held(examiner):
        waiting = [asyncio.create_task(examiner.examine(LARGE)) for _ in range(2)]
        await asyncio.sleep(0)
        assert await examiner.examine(LARGE) == Busy()
        assert isinstance(await examiner.examine(SMALL), Passed)
    assert all(isinstance(verdict, Passed) for verdict in await asyncio.gather(*waiting))
    assert isinstance(await examiner.examine(LARGE), Passed)


async def test_a_caller_that_gives_up_frees_its_place(examiner: Examiner) -> None:
    with _Held(examiner):
        waiting = [asyncio.create_task(examiner.examine(LARGE)) for _ in range(2)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.wait([waiting[0]])
        third = asyncio.create_task(examiner.examine(LARGE))
        await asyncio.sleep(0)
        assert not third.done()
    assert isinstance(await third, Passed)
    assert isinstance(await waiting[1], Passed)


async def test_the_thread_steps_back_behind_the_loop(examiner: Examiner) -> None:
    await examiner.examine(LARGE)
    threads = [int(entry.name) for entry in Path("/proc/self/task").iterdir()]
    assert max(os.getpriority(os.PRIO_PROCESS, thread) for thread in threads) > os.getpriority(os.PRIO_PROCESS, 0)


async def test_time_spent_waiting_counts(vocabulary: Vocabulary) -> None:
    examiner = Examiner(Limits(), vocabulary, seconds=0)
    assert await examiner.examine(LARGE) == OutOfTime()
    examiner.close()
