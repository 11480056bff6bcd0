"""Latencies that benchmarks tell: none is left out, runs add up, and an open loop counts from when one was due."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.latency import Latencies, merged
from benchmarks.load import Load, bodies_of, requests_of

SECONDS = st.lists(st.floats(min_value=1e-6, max_value=500.0), min_size=1, max_size=200)
ANSWER = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"


@given(SECONDS)
def test_a_percentile_has_three_digits_of_the_value_that_is_there(seconds: list[float]) -> None:
    ordered = sorted(seconds)
    told = Latencies(seconds)
    assert told.ms(100) == pytest.approx(ordered[-1] * 1000, rel=2e-3, abs=2e-3)
    assert told.ms(0) == pytest.approx(ordered[0] * 1000, rel=2e-3, abs=2e-3)


@given(SECONDS, SECONDS)
def test_two_runs_have_the_percentiles_of_all_their_values(one: list[float], other: list[float]) -> None:
    both = merged([Latencies(one), Latencies(other)])
    assert both.percentiles() == Latencies([*one, *other]).percentiles()


@given(SECONDS)
def test_what_is_written_down_is_read_again(seconds: list[float]) -> None:
    told = Latencies(seconds)
    assert Latencies.read(told.write()).percentiles() == told.percentiles()


def test_bodies_have_the_size_that_was_asked_for_and_are_the_same_each_time() -> None:
    assert {len(body) for body in bodies_of(1024)} == {1024}
    assert requests_of(1024) == requests_of(1024)


async def test_requests_that_could_not_be_sent_while_the_door_stood_still_count_from_when_they_were_due() -> None:
    """The first answer takes its time; whoever measured from the sending would call only that one slow."""
    may_answer, hung_up = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(20):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            await reader.readexactly(length)
            await may_answer.wait()
            writer.write(ANSWER)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        hung_up.set()

    loop = asyncio.get_running_loop()
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        load = Load(requests_of(1024))
        await load.connect(server.sockets[0].getsockname()[1], 1)
        running = asyncio.ensure_future(load.run(20, rate=1000.0))
        begun = loop.time()
        loop.call_later(0.5, may_answer.set)
        seen = await running
        load.close()
        await hung_up.wait()
    waited = loop.time() - begun
    assert len(seen.latencies) == 20
    assert min(seen.latencies) >= 0.4  # all were due in the first 20 ms, and none was answered before the door was
    assert max(seen.latencies) <= waited
