"""A body is read whole, under its caps and in time, or refused with an answer that reaches the client."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import aiohttp
import pytest
from aiohttp import web

from gateway.admission import Refused, Rule, Violation
from gateway.body import CODED_ALLOWANCE, PACE, Body, NoRoom, Pace, answer_while_sending, read_body
from tests.support.waiting import PATIENCE, soon

CAP = 50_000
MEGABYTE = b"x" * 1_048_576


@dataclass
class Server:
    """A real server on a free port, whose one handler reads a body and tells what became of it."""

    port: int = 0
    seconds: float = 10.0
    pace: Pace = PACE
    drain_bytes: int = 4_194_304
    drain_seconds: float = 10.0
    begun: int = 0
    room: int = 10**9
    held: list[tuple[int, bool]] = field(default_factory=list)
    read: list[Body | Refused] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.begun += 1
        body = await read_body(request, max_bytes=CAP, seconds=self.seconds, pace=self.pace, hold=self.hold)
        if isinstance(body, NoRoom):
            return await answer_while_sending(request, web.Response(status=503))
        self.read.append(body)
        if isinstance(body, Body):
            return web.json_response({"bytes": len(body.content)})
        answer = web.json_response({"rule": body.violations[0].rule}, status=413)
        slow = body.violations[0].rule is Rule.BODY_TOO_SLOW
        return await answer_while_sending(
            request, answer, drain_bytes=self.drain_bytes, drain_seconds=0 if slow else self.drain_seconds
        )

    def hold(self, size: int, /, *, whole: bool) -> bool:
        self.held.append((size, whole))
        return size <= self.room

    def violation(self) -> Violation:
        """The reason for the latest refusal."""
        refused = self.read[-1]
        assert isinstance(refused, Refused), refused
        return refused.violations[0]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    application = web.Application()
    application.router.add_post("/", server.handle)
    runner = web.AppRunner(application, auto_decompress=False, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.port = runner.addresses[0][1]
    yield server
    await runner.cleanup()


async def _post(server: Server, body: bytes | AsyncIterator[bytes], **headers: str) -> int:
    address = f"http://127.0.0.1:{server.port}/"
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession(auto_decompress=False) as client,
        client.post(address, data=body, headers=sent) as answer,
    ):
        return answer.status


async def _pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


@contextlib.asynccontextmanager
async def _socket(server: Server) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def _head(*lines: str) -> bytes:
    return "\r\n".join(["POST / HTTP/1.1", "Host: here", *lines, "", ""]).encode()


async def test_a_plain_body_is_read_byte_for_byte(server: Server) -> None:
    content = bytes(range(256)) * 100
    assert await _post(server, content) == 200
    assert server.read == [Body(content=content, wire_bytes=len(content))]


async def test_an_empty_body_is_read_as_such(server: Server) -> None:
    assert await _post(server, b"") == 200
    assert server.read == [Body(content=b"", wire_bytes=0)]


async def test_exactly_the_cap_passes_and_one_byte_more_does_not(server: Server) -> None:
    assert await _post(server, b"x" * CAP) == 200
    assert await _post(server, b"x" * (CAP + 1)) == 413
    assert (server.violation().limit, server.violation().actual) == (CAP, CAP + 1)


async def test_a_chunked_body_is_counted_while_it_is_read(server: Server) -> None:
    assert await _post(server, _pieces(b"x" * 30_000, b"x" * 30_000)) == 413
    assert server.violation().rule is Rule.BODY_TOO_LARGE
    assert await _post(server, _pieces(b"x" * 30_000, b"x" * 20_000)) == 200


def _raw_deflate(content: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(content) + stream.flush()


CODINGS = [("gzip", gzip.compress), ("deflate", zlib.compress), ("deflate", _raw_deflate)]


@pytest.mark.parametrize(("coding", "encode"), CODINGS)
async def test_coded_bodies_arrive_inflated(server: Server, coding: str, encode: Callable[[bytes], bytes]) -> None:
    coded = encode(b"hello " * 1000)
    assert await _post(server, coded, Content_Encoding=coding) == 200
    assert server.read == [Body(content=b"hello " * 1000, wire_bytes=len(coded))]


@pytest.mark.parametrize(("coding", "encode"), CODINGS)
async def test_a_bomb_is_refused_by_its_inflated_size(
    server: Server, coding: str, encode: Callable[[bytes], bytes]
) -> None:
    assert await _post(server, encode(b"\0" * 50_000_000), Content_Encoding=coding) == 413
    assert server.violation().rule is Rule.BODY_TOO_LARGE


async def test_content_that_does_not_compress_may_be_a_little_larger_on_the_wire(server: Server) -> None:
    content = b"x" * CAP
    stored = gzip.compress(content, compresslevel=0)
    assert CAP < len(stored) < CAP + CODED_ALLOWANCE
    assert await _post(server, stored, Content_Encoding="gzip") == 200


@pytest.mark.parametrize("coded", [gzip.compress(b"hello" * 100, mtime=0)[:-4], b"not gzip", b""])
async def test_broken_gzip_is_refused_and_never_read_short(server: Server, coded: bytes) -> None:
    await _post(server, coded, Content_Encoding="gzip")
    assert server.violation().rule is Rule.BROKEN_CONTENT_ENCODING


@pytest.mark.parametrize("coding", ["zstd, gzip", "compress", "gzip, br", "gzip, gzip"])
async def test_other_codings_are_refused_naming_the_supported_ones(server: Server, coding: str) -> None:
    await _post(server, b"x", Content_Encoding=coding)
    assert server.violation().rule is Rule.UNSUPPORTED_CONTENT_ENCODING
    assert "gzip" in server.violation().message


async def test_a_declared_size_over_the_cap_is_refused_before_a_byte_is_sent(server: Server) -> None:
    async with _socket(server) as (reader, writer):
        writer.write(_head(f"Content-Length: {10**9}"))
        async with asyncio.timeout(PATIENCE):
            assert (await reader.readline()).startswith(b"HTTP/1.1 413")
    assert server.violation().actual == 10**9


async def test_a_stalled_body_is_given_up_after_its_deadline_and_the_connection_ends(server: Server) -> None:
    server.seconds = 0.1
    async with _socket(server) as (reader, writer):
        writer.write(_head("Content-Length: 100") + b"0123456789")
        async with asyncio.timeout(PATIENCE):
            assert b'"body_too_slow"' in await reader.read()
    assert (server.violation().actual, server.violation().unit) == (10, "bytes")


async def test_a_body_below_the_pace_is_given_up_long_before_its_deadline(server: Server) -> None:
    server.seconds = 3600
    server.pace = Pace(bytes=50, seconds=0.1)
    async with _socket(server) as (reader, writer):
        writer.write(_head("Content-Length: 100") + b"0123456789")
        async with asyncio.timeout(PATIENCE):
            assert b'"body_too_slow"' in await reader.read()
    assert "less than 50 bytes" in server.violation().message


async def test_a_body_asks_for_room_as_it_grows_and_once_it_is_whole(server: Server) -> None:
    assert await _post(server, b"x" * CAP) == 200
    sizes = [size for size, _ in server.held]
    assert sizes == sorted(sizes)
    assert server.held[-1] == (CAP, True)
    async with _socket(server) as (_reader, writer):
        writer.write(_head(f"Content-Length: {CAP}") + b"0123456789")
        await soon(lambda: server.held[-1] == (10, False))


async def test_a_body_takes_the_room_of_what_it_inflates_to(server: Server) -> None:
    coded = gzip.compress(b"\0" * CAP)
    assert await _post(server, coded, Content_Encoding="gzip") == 200
    assert server.held[-1] == (CAP, True)


async def test_a_body_without_room_is_given_up_and_is_no_fault_of_its_client(server: Server) -> None:
    server.room = 30_000
    assert await _post(server, b"x" * CAP) == 503
    assert await _post(server, b"x" * 30_000) == 200
    assert len(server.read) == 1


async def test_a_client_that_goes_away_in_the_middle_harms_nobody(server: Server) -> None:
    async with _socket(server) as (_reader, writer):
        writer.write(_head("Content-Length: 100") + b"0123456789")
        await writer.drain()
    await soon(lambda: server.read)
    assert server.violation().rule is Rule.BODY_BROKEN


async def test_bad_chunk_framing_never_becomes_a_body(server: Server) -> None:
    server.seconds = 0.3  # aiohttp does not tell the reader of a body that its framing broke: the deadline does
    async with _socket(server) as (reader, writer):
        writer.write(_head("Transfer-Encoding: chunked") + b"5\r\nhello\r\n")
        await soon(lambda: server.begun)
        writer.write(b"zz\r\n")
        async with asyncio.timeout(PATIENCE):
            await reader.read()
    await soon(lambda: server.read)
    assert server.violation().rule is Rule.BODY_TOO_SLOW


async def test_a_client_that_sends_everything_before_it_reads_still_gets_the_answer(server: Server) -> None:
    async with _socket(server) as (reader, writer):
        writer.write(_head(f"Content-Length: {3 * len(MEGABYTE)}"))
        for _ in range(3):
            writer.write(MEGABYTE)
            await writer.drain()
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 413")
    assert b'"body_too_large"' in answer


async def test_an_endless_upload_reads_its_answer_and_is_not_drained_for_ever(server: Server) -> None:
    server.drain_seconds = 0.5
    sent = 0
    async with _socket(server) as (reader, writer):
        writer.write(_head(f"Content-Length: {500 * len(MEGABYTE)}"))

        async def send() -> None:
            nonlocal sent
            while True:
                writer.write(MEGABYTE)
                await writer.drain()
                sent += len(MEGABYTE)

        sending = asyncio.create_task(send())
        async with asyncio.timeout(PATIENCE):
            assert (await reader.readline()).startswith(b"HTTP/1.1 413")
            await asyncio.wait([sending])
        assert isinstance(sending.exception(), ConnectionError)
    # What was drained, and what the buffers of both ends hold.
    assert sent < server.drain_bytes + 32 * len(MEGABYTE)


async def test_a_connection_whose_body_was_read_whole_stays_open(server: Server) -> None:
    async with _socket(server) as (reader, writer):
        for _ in range(2):
            writer.write(_head("Content-Length: 1", "Content-Encoding: br") + b"x")
            async with asyncio.timeout(PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                assert b"413" in head.splitlines()[0]
                await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
    assert len(server.read) == 2
