"""Clients that take as much as they can get, and those beside them, who are served all the same."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest

from gateway.embedded import EmbeddedBroker
from tests.integration.door.running import RunningDoor, start_door
from tests.support.program import Programs

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
async def _uploads(door: RunningDoor, *headers: bytes, begin: bytes) -> AsyncIterator[None]:
    """Hold many uploads that have begun and do not go on."""
    head = b"\r\n".join((b"POST /v1/tickets?kind=a HTTP/1.1", b"Host: a", b"Content-Type: text/plain", *headers))
    lines = await asyncio.gather(*(asyncio.open_connection(*door.host_port) for _ in range(CLIENTS)))
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


async def test_others_are_answered_while_the_worst_bodies_are_examined(door: RunningDoor) -> None:
    worst = [asyncio.create_task(_examine(door, *body)) for body in _worst_bodies()]
    alive = 0
    while not all(examining.done() for examining in worst):
        assert (await door.ask("GET", "/healthz")).status == 200
        alive += 1

    assert {await examining for examining in worst} <= {202, 422, 503}
    # One that stands still while it examines answers at most once between two of them.
    assert alive > 3 * len(worst)


async def _examine(door: RunningDoor, body: bytes, content_type: str) -> int:
    headers = {"Content-Type": content_type}
    return (await door.ask("POST", "/v1/tickets?kind=a", data=body, headers=headers)).status


def _worst_bodies() -> list[tuple[bytes, str]]:
    """Return twenty bodies at the limit that take longest to examine: up to a third of a second each."""
    nested = b'{"kind":"a","body":"x","attributes":{"a":[' + b'{"a":1},' * 49_000 + b"1]}}"
    texts = [b"\n" * FULL, b" " * (FULL - 1) + b".", b"a" * FULL]
    return [(nested, "application/json"), *((text, "text/plain") for text in texts)] * 5
