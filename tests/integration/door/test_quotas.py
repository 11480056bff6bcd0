"""A client's quota: in requests and in bytes, told in advance, charged while a body comes (G10)."""

import asyncio
import io
import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.integration.door.conftest import StartDoor
from tests.integration.door.key_file import KeyFile, bearing
from tests.integration.door.running import TICKET, Answer, RunningDoor
from tests.support.waiting import soon


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.jsonl")


async def _start(start: StartDoor, keys: KeyFile, **settings: str) -> RunningDoor:
    return await start(keys=str(keys.path), max_body_bytes="64KiB", **settings)


def _left(answer: Answer, policy: str) -> int:
    match = re.search(f'"{policy}";r=(\\d+);t=\\d+', answer.headers["RateLimit"])
    assert match is not None
    return int(match[1])


def _is_exceeded(answer: Answer, policy: str) -> bool:
    return (
        answer.status == 429
        and answer.document["retryable"]
        and answer.document["violated-policies"] == [policy]
        and int(answer.headers["Retry-After"]) > 0
        and f'"{policy}";' in answer.headers["RateLimit"]
        and f'"{policy}";q=' in answer.headers["RateLimit-Policy"]
    )


async def test_requests_beyond_the_quota_are_429_and_others_are_not_touched(start: StartDoor, keys: KeyFile) -> None:
    poor, rich = keys.add("poor", requests="3/1000d"), keys.add("rich")
    async with await _start(start, keys) as door:
        await soon(door.is_ready)
        paid = [await door.submit(**bearing(poor)) for _ in range(3)]
        refused = await door.submit(**bearing(poor))
        status = await door.ask("GET", "/v1/tickets/x", headers=bearing(poor))

        assert [answer.status for answer in paid] == [202] * 3
        assert [_left(answer, "requests") for answer in paid] == [2, 1, 0]
        assert paid[0].headers["RateLimit-Policy"] == '"requests";q=3;w=86400000'
        assert _is_exceeded(refused, "requests")
        assert _is_exceeded(status, "requests")
        other = await door.submit(**bearing(rich))
        assert other.status == 202
        assert "RateLimit" not in other.headers
        assert await door.queued() == 4
        assert await door.metric('lazaretto_callers_refused_total{reason="requests"}') == 2


async def test_the_keys_of_a_client_share_one_quota(start: StartDoor, keys: KeyFile) -> None:
    first, second = (keys.add("acme", requests="3/1000d") for _ in range(2))
    async with await _start(start, keys) as door:
        await soon(door.is_ready)
        statuses = [(await door.submit(**bearing(key))).status for key in (first, second, first, second)]
        assert statuses == [202, 202, 202, 429]


async def test_a_quota_fills_again(start: StartDoor, keys: KeyFile) -> None:
    key = keys.add("acme", requests="1/s")
    async with await _start(start, keys) as door:
        await soon(door.is_ready)
        assert (await door.submit(**bearing(key))).status == 202
        await soon(lambda: _is(door, key, 202))


async def _is(door: RunningDoor, key: str, status: int) -> bool:
    return (await door.submit(**bearing(key))).status == status


async def test_a_declared_body_beyond_the_quota_is_429_before_it_is_read(start: StartDoor, keys: KeyFile) -> None:
    key = keys.add("acme", size="100KiB/1000d")
    async with await _start(start, keys) as door:
        await soon(door.is_ready)
        first = await door.submit_text(b"x" * 60_000, **bearing(key))
        second = await door.submit_text(b"x" * 60_000, **bearing(key))
        small = await door.submit_text(b"x" * 10_000, **bearing(key))

        assert first.status == 202
        assert _left(first, "bytes") == 102_400 - 60_000
        assert _is_exceeded(second, "bytes")
        assert _left(second, "bytes") == 102_400 - 60_000, "what was not read is not charged"
        assert small.status == 202
        assert 'qu="content-bytes"' in small.headers["RateLimit-Policy"]


async def test_a_body_of_undeclared_size_is_charged_while_it_comes(start: StartDoor, keys: KeyFile) -> None:
    key = keys.add("acme", size="100KiB/1000d")
    gate = asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b"x" * 40_000
        await gate.wait()
        yield b"x" * 10_000

    async with await _start(start, keys) as door:
        await soon(door.is_ready)
        slow = asyncio.create_task(_chunked(door, key, slowly()))
        await soon(lambda: _charged(door, key, 40_000), saying="charged while the upload is still under way")
        gate.set()
        assert (await slow).status == 202

        over = await _chunked(door, key, slowly())
        assert over.status == 202
        assert _is_exceeded(await _chunked(door, key, slowly()), "bytes")


async def _chunked(door: RunningDoor, key: str, body: AsyncIterator[bytes]) -> Answer:
    return await door.ask(
        "POST", "/v1/tickets?kind=support.ticket", data=body, headers={"Content-Type": "text/plain", **bearing(key)}
    )


async def _charged(door: RunningDoor, key: str, size: int) -> bool:
    answer = await door.ask("GET", "/v1/tickets/x", headers=bearing(key))
    return _left(answer, "bytes") <= 102_400 - size


async def test_a_quota_holds_at_least_one_ticket_however_it_is_written(start: StartDoor, keys: KeyFile) -> None:
    key = keys.add("acme", size="4KiB/s")
    async with await _start(start, keys) as door:
        await soon(door.is_ready)
        answer = await door.submit_text(b"x" * 65_536, **bearing(key))

        assert answer.status == 202
        assert answer.headers["RateLimit-Policy"] == '"bytes";q=65536;qu="content-bytes";w=16'


async def test_a_new_key_file_is_no_new_allowance(start: StartDoor, keys: KeyFile) -> None:
    key = keys.add("acme", requests="2/1000d")
    async with await _start(start, keys) as door:
        await soon(door.is_ready)
        assert [(await door.submit(**bearing(key))).status for _ in range(3)] == [202, 202, 429]

        other = keys.add("other")

        await soon(lambda: _is(door, other, 202))
        assert (await door.submit(**bearing(key))).status == 429


async def test_a_429_reaches_a_client_that_is_still_sending(start: StartDoor, keys: KeyFile) -> None:
    key = keys.add("acme", requests="1/1000d")
    async with await _start(start, keys) as door:
        await soon(door.is_ready)
        assert (await door.submit(TICKET, **bearing(key))).status == 202
        async with (
            aiohttp.ClientSession(door.url) as client,
            client.post(
                "/v1/tickets", data=io.BytesIO(b"x" * 4_000_000), headers={"Content-Type": "text/plain", **bearing(key)}
            ) as answer,
        ):
            assert answer.status == 429
