"""However many connections are opened, the door keeps a bound on them and serves whoever asks for something."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import psutil
import pytest

from gateway.open_connections import QUIET_AFTER
from tests.integration.door.conftest import StartDoor
from tests.integration.door.running import RunningDoor
from tests.support.waiting import soon

MOST = 8
PROBE, REQUEST = (
    b"GET %b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % path for path in (b"/healthz", b"/v1/limits")
)


@asynccontextmanager
async def _connected(door: RunningDoor) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*door.host_port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def _answer(door: RunningDoor, *pieces: bytes) -> bytes:
    """Return what the door says to one more connection with a request, by default one that is no probe."""
    async with asyncio.timeout(20), _connected(door) as (reader, writer):
        for piece in pieces or (REQUEST,):
            writer.write(piece)
            await asyncio.sleep(0)
        return await reader.read()


@pytest.mark.parametrize("event_loop", ["asyncio", "uvloop"])
async def test_connections_on_which_nobody_asks_for_anything_give_way(start: StartDoor, event_loop: str) -> None:
    async with await start(max_connections=str(MOST), event_loop=event_loop) as door, AsyncExitStack() as crowd:
        for number in range(5 * MOST):
            _, writer = await crowd.enter_async_context(_connected(door))
            if number % 2:
                writer.write(b"GET /healthz HTTP/1.1\r\nHo")

        async def is_served() -> bool:
            return (await _answer(door)).startswith(b"HTTP/1.1 200")

        await soon(is_served, 20 * QUIET_AFTER)
        open_now = [each for each in psutil.Process(door.program.pid).net_connections() if each.status == "ESTABLISHED"]
        to_clients = [each for each in open_now if each.laddr.port == door.host_port[1]]
        assert len(to_clients) <= MOST + 1
        assert await door.metric('lazaretto_connections_ended_total{why="quiet"}') > 0


@pytest.mark.parametrize("event_loop", ["asyncio", "uvloop"])
async def test_while_all_are_being_answered_one_more_is_a_503_at_once_unless_it_asks_whether_the_door_is_alive(
    start: StartDoor, event_loop: str
) -> None:
    async with await start(max_connections=str(MOST), event_loop=event_loop) as door, AsyncExitStack() as crowd:
        for _ in range(MOST):
            _, writer = await crowd.enter_async_context(_connected(door))
            writer.write(b"GET /v1/tickets/unknown?wait=60s HTTP/1.1\r\nHost: a\r\n\r\n")

        async def is_turned_away() -> bytes:
            answer = await _answer(door)
            return answer if answer.startswith(b"HTTP/1.1 503") else b""

        head, _, body = (await soon(is_turned_away, 20)).partition(b"\r\n\r\n")

        assert b"\r\nRetry-After: " in head
        assert b"\r\nRequest-Id: " in head
        assert b'"type":"urn:lazaretto:problem:overloaded"' in body
        assert b'"reason":"connections"' in body
        for pieces in ((PROBE,), (PROBE[:7], PROBE[7:])):
            alive = await _answer(door, *pieces)
            assert alive.startswith(b"HTTP/1.1 200 OK\r\n")
            assert alive.endswith(b'\r\n\r\n{"alive":true}')
        assert (await _answer(door, b"\r\n")).startswith(b"HTTP/1.1 503")
        await crowd.aclose()
        await soon(lambda: _is_healthy(door))


async def _is_healthy(door: RunningDoor) -> bool:
    return (await _answer(door)).startswith(b"HTTP/1.1 200")
