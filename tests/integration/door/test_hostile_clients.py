"""Clients that take as much as they can get, and those beside them, who are served all the same."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import psutil
import pytest

from benchmarks import assault
from benchmarks.hostile_requests import generated, worst
from gateway.embedded import EmbeddedBroker
from tests.integration.door.running import RunningDoor, start_door
from tests.support.program import Programs
from tests.support.waiting import soon

CLIENTS = 200
FULL = 524_288


@pytest.fixture(scope="module")
def door_process(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDoor]:
    """A door with the limits that it has by default."""
    folder = tmp_path_factory.mktemp("door")
    programs = Programs(folder)
    yield start_door(programs, broker_url=broker.url, prefix=f"t{uuid4().hex[:10]}", data=folder / "data")
    programs.close()


@contextlib.asynccontextmanager
async def _uploads(door: RunningDoor, *headers: bytes, begin: bytes, clients: int = CLIENTS) -> AsyncIterator[None]:
    """Hold many uploads that have begun and do not go on."""
    head = b"\r\n".join((b"POST /v1/tickets?kind=a HTTP/1.1", b"Host: a", b"Content-Type: text/plain", *headers))
    lines = await asyncio.gather(*(asyncio.open_connection(*door.host_port) for _ in range(clients)))
    try:
        for _, writer in lines:
            writer.write(head + b"\r\n\r\n" + begin)
        yield
    finally:
        for _, writer in lines:
            writer.transport.abort()


@pytest.mark.parametrize(
    ("headers", "begin"),
    [
        ([b"Content-Length: %d" % FULL], b"0123456789"),
        ([b"Transfer-Encoding: chunked"], b"a\r\n0123456789\r\n"),
        ([b"Content-Length: %d" % FULL], b"x" * (FULL - 1)),
    ],
    ids=["declared", "chunked", "all but the last byte"],
)
async def test_uploads_that_stall_keep_nobody_else_out(door: RunningDoor, headers: list[bytes], begin: bytes) -> None:
    async with _uploads(door, *headers, begin=begin):
        answers = [await door.submit() for _ in range(10)]

    assert [answer.status for answer in answers] == [202] * 10, [answer.text for answer in answers]


async def test_a_thousand_slow_uploads_take_no_more_memory_than_there_is_room(door: RunningDoor) -> None:
    process = psutil.Process(door.program.pid)
    before = process.memory_info().rss

    async with _uploads(door, b"Content-Length: %d" % FULL, begin=b"x" * 200_000, clients=1000):
        await soon(lambda: _is_full(door), within=30)
        assert (await door.submit()).status == 202
        grown = process.memory_info().rss - before

    # 200 MB were on their way; the room for what is unfinished is 32 MiB, and each line has buffers of its own.
    assert grown < 128 << 20


async def _is_full(door: RunningDoor) -> bool:
    return await door.metric("lazaretto_inflight_bytes") > 28 << 20


async def test_generated_requests_break_nothing_and_what_was_admitted_is_published(door: RunningDoor) -> None:
    await door.take()

    statuses = await assault.send(door.host_port[1], generated(150, seed=7), rate=0.0, at_once=4, within=1.0)

    assert statuses.total() == 150
    assert not [status for status in statuses if status.startswith("5") and status != "503"], statuses
    assert statuses["400"] > statuses["202"] > 0
    await soon(lambda: _has_published(door, statuses["202"]))
    assert (await door.submit()).status == 202


async def _has_published(door: RunningDoor, tickets: int) -> bool:
    # Who was hung up on before the answer may have been admitted all the same.
    return await door.queued() >= tickets


async def test_others_are_answered_while_the_worst_bodies_are_examined(door: RunningDoor) -> None:
    sending = asyncio.create_task(assault.send(door.host_port[1], worst() * 3, rate=0.0, at_once=20, within=60.0))
    alive = 0
    while not sending.done():
        assert (await door.ask("GET", "/healthz")).status == 200
        alive += 1
    statuses = await sending

    assert statuses.keys() <= {"202", "422", "503"}
    # One that stands still while it examines answers at most once between two of them.
    assert alive > 3 * statuses.total()
