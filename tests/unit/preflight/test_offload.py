"""Large bodies wait for one process in a short queue; small ones and the event loop do not wait for them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.admission import Limits, Refused
from gateway.preflight import OutOfTime, Passed, Submission, Vocabulary, examine, offload
from gateway.preflight.contents import digest_of
from gateway.preflight.examining import LENGTH, Verdict, packed, verdict_of
from gateway.preflight.offload import INLINE_BYTES, Busy, ExaminationFailed, Examiner

SMALL = Submission(body=b"hello", content_type="text/plain", kind="k")
LARGE = Submission(body=b"hello " * INLINE_BYTES, content_type="text/plain", kind="k")


@pytest.fixture
async def examiner(vocabulary: Vocabulary) -> AsyncIterator[Examiner]:
    examiner = Examiner(Limits(), vocabulary, seconds=30, queued=2)
    yield examiner
    examiner.close()


@asynccontextmanager
async def held(examiner: Examiner) -> AsyncIterator[int]:
    """The examiner's process, stopped until released."""
    assert isinstance(await examiner.examine(LARGE, client="c"), Passed)
    assert examiner.pid is not None
    pid = examiner.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


async def test_small_and_large_bodies_get_the_same_examination(examiner: Examiner) -> None:
    assert isinstance(await examiner.examine(SMALL, client="c"), Passed)
    assert isinstance(await examiner.examine(LARGE, client="c"), Passed)


async def test_of_a_large_ticket_a_door_gets_what_it_needs_and_a_digest_of_the_rest(
    examiner: Examiner, vocabulary: Vocabulary
) -> None:
    members = {"kind": "k", "id": "t-1", "body": "x", "attributes": {"a": [[]] * 50_000}}
    submission = Submission(body=orjson.dumps(members), content_type="application/json")
    whole = examine(submission, Limits(), vocabulary)
    assert isinstance(whole, Passed)

    passed = await examiner.examine(submission, client="c")

    assert isinstance(passed, Passed)
    assert (passed.ticket.kind, passed.ticket.id, passed.ticket.attributes) == ("k", "t-1", {})
    assert passed.admission == whole.admission
    assert passed.contents == digest_of(whole.ticket, "c") != digest_of(whole.ticket, "d")


@pytest.mark.parametrize("said", [{"content_type": "text/\udcff"}, {"kind": "k\udced"}, {"kind": "k\0"}])
async def test_headers_that_are_no_text_are_refused_alike_however_large_the_body_is(
    examiner: Examiner, said: dict[str, str]
) -> None:
    small, large = [await examiner.examine(replace(one, **said), client="c") for one in (SMALL, LARGE)]

    assert isinstance(small, Refused)
    assert isinstance(large, Refused)
    assert large.violations == small.violations


@pytest.mark.parametrize("body", [b"hello", b"\0"], ids=["faultless", "binary"])
async def test_what_was_examined_at_once_is_not_examined_again_and_counts_once(
    vocabulary: Vocabulary, body: bytes
) -> None:
    took: list[float] = []
    examiner = Examiner(Limits(), vocabulary, seconds=30, took=took.append)
    submission = Submission(body=body, content_type="text/plain", kind="k")

    first = examiner.at_once(submission)
    verdict = await examiner.examine(submission, client="c")
    assert first is (verdict if isinstance(verdict, Passed) else None)
    assert len(took) == 1

    assert await examiner.examine(submission, client="c") == verdict
    assert len(took) == 2
    examiner.close()


async def test_a_full_queue_answers_busy_at_once_and_small_bodies_pass_it(examiner: Examiner) -> None:
    async with held(examiner):
        waiting = [asyncio.create_task(examiner.examine(LARGE, client="c")) for _ in range(2)]
        await asyncio.sleep(0)
        assert await examiner.examine(LARGE, client="c") == Busy()
        assert isinstance(await examiner.examine(SMALL, client="c"), Passed)
    assert all(isinstance(verdict, Passed) for verdict in await asyncio.gather(*waiting))
    assert isinstance(await examiner.examine(LARGE, client="c"), Passed)


async def test_a_caller_that_gives_up_frees_its_place(examiner: Examiner) -> None:
    async with held(examiner):
        waiting = [asyncio.create_task(examiner.examine(LARGE, client="c")) for _ in range(2)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.wait([waiting[0]])
        third = asyncio.create_task(examiner.examine(LARGE, client="c"))
        await asyncio.sleep(0)
        assert not third.done()
    assert isinstance(await third, Passed)
    assert isinstance(await waiting[1], Passed)


async def test_the_process_steps_back_behind_the_loop(examiner: Examiner) -> None:
    await examiner.examine(LARGE, client="c")
    assert examiner.pid is not None
    assert os.getpriority(os.PRIO_PROCESS, examiner.pid) > os.getpriority(os.PRIO_PROCESS, 0)


async def test_a_killed_process_says_nothing_about_the_body_and_another_one_takes_its_place(examiner: Examiner) -> None:
    async with asyncio.timeout(60):
        async with held(examiner) as pid:
            waiting = asyncio.create_task(examiner.examine(LARGE, client="c"))
            await asyncio.sleep(0)
            os.kill(pid, signal.SIGKILL)
            assert await waiting == OutOfTime()
            assert isinstance(await examiner.examine(LARGE, client="c"), Passed)
            assert examiner.pid != pid


async def test_a_system_that_gives_no_process_ends_nothing_and_is_asked_again(
    vocabulary: Vocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offload, "_START_AFTER", 0)
    examiner = Examiner(Limits(), vocabulary, seconds=30)
    try:
        with monkeypatch.context() as without:
            without.setattr(sys, "executable", str(tmp_path / "removed"))
            running = asyncio.create_task(examiner.run())
            assert await examiner.examine(LARGE, client="c") == Busy()
            assert isinstance(await examiner.examine(SMALL, client="c"), Passed)
            assert not running.done()
        assert isinstance(await examiner.examine(LARGE, client="c"), Passed)
        assert not running.done()
        running.cancel()
    finally:
        examiner.close()


async def test_what_waits_for_it_at_the_end_starts_no_other(vocabulary: Vocabulary) -> None:
    examiner = Examiner(Limits(), vocabulary, seconds=30)
    async with asyncio.timeout(60), held(examiner) as pid:
        waiting = [asyncio.create_task(examiner.examine(LARGE, client="c")) for _ in range(3)]
        await asyncio.sleep(0)
        examiner.close()
        assert not any(isinstance(verdict, Passed) for verdict in await asyncio.gather(*waiting))
        assert examiner.pid == pid


async def test_a_process_that_hangs_is_out_of_time_and_replaced(vocabulary: Vocabulary) -> None:
    examiner = Examiner(Limits(), vocabulary, seconds=30)
    try:
        async with asyncio.timeout(60), held(examiner) as pid:
            examiner._seconds = 0.05  # noqa: SLF001 - the start of a process takes longer than a test should wait
            assert await examiner.examine(LARGE, client="c") == OutOfTime()
            examiner._seconds = 30  # noqa: SLF001 - as above
            assert isinstance(await examiner.examine(LARGE, client="c"), Passed)
            assert examiner.pid != pid
    finally:
        examiner.close()


async def test_what_the_examination_raises_is_told_with_its_trace_and_ends_nothing(tmp_path: Path) -> None:
    removed = Vocabulary.at_need("o200k_base", file=tmp_path / "removed", sha256="0" * 64)
    examiner = Examiner(Limits(), removed, seconds=30)
    try:
        assert isinstance(await examiner.examine(LARGE, client="c"), Passed)
        pid = examiner.pid
        with pytest.raises(ExaminationFailed, match=r"Traceback[^$]*VocabularyError"):
            await examiner.examine(
                Submission(body=LARGE.body * 3, content_type=LARGE.content_type, kind="k"), client="c"
            )
        assert isinstance(await examiner.examine(LARGE, client="c"), Passed)
        assert examiner.pid == pid
    finally:
        examiner.close()


@pytest.mark.parametrize(
    "content", [b"", b"\xc1", packed(Verdict(number=1))[LENGTH.size : -1], b"\x81\xa6number\xa3one"], ids=range(4)
)
def test_what_is_no_verdict_is_never_taken_for_one(content: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        verdict_of(content)


@given(st.binary(max_size=64) | st.recursive(st.integers() | st.binary(), st.lists).map(repr).map(str.encode))
def test_any_ticket_comes_back_as_it_was_examined(content: bytes) -> None:
    vocabulary = Vocabulary.at_need("o200k_base")
    for content_type in ("application/json", "text/plain", "multipart/form-data; boundary=b"):
        found = examine(Submission(body=content, content_type=content_type, kind="k"), Limits(), vocabulary)
        assert not isinstance(found, OutOfTime)
        passed, refused = (found, None) if isinstance(found, Passed) else (None, found)
        verdict = Verdict(number=7, passed=passed, refused=refused)
        again = verdict_of(packed(verdict)[LENGTH.size :])
        assert (again, again.found) == (verdict, found)


async def test_what_may_need_its_tokens_counted_is_no_small_body(vocabulary: Vocabulary) -> None:
    named = Vocabulary.at_need(vocabulary.name)
    examiner = Examiner(Limits(max_tokens=4), named, seconds=30)
    try:
        verdict = await examiner.examine(SMALL, client="c")
        assert isinstance(verdict, Passed)
        assert verdict.admission.facts.tokens is not None
        assert verdict.admission.facts.tokens.exact
        assert "encoding" not in vars(named)  # it is the process that has built it
    finally:
        examiner.close()


async def test_time_spent_waiting_counts(vocabulary: Vocabulary) -> None:
    examiner = Examiner(Limits(), vocabulary, seconds=0)
    assert await examiner.examine(LARGE, client="c") == OutOfTime()
    examiner.close()
