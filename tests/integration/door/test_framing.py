"""Bytes that two readers would cut into requests differently: refused whole, answered, and nothing published."""

import socket

import pytest
from aiohttp import http_parser

from tests.integration.door.bare import WITHIN, chunked, exchange, post, read_to_end, statuses
from tests.integration.door.running import RunningDoor
from tests.support.waiting import soon

LENGTH = b"Content-Length: 5"
CHUNKED = b"Transfer-Encoding: chunked"
HELLO = chunked(b"hello")
GOOD = post(LENGTH, body=b"hello")
MEGABYTE = b"x" * 1_048_576

AMBIGUOUS = {
    "CL and TE": post(LENGTH, CHUNKED, body=HELLO),
    "TE and CL": post(CHUNKED, LENGTH, body=HELLO),
    "TE twice": post(CHUNKED, CHUNKED, body=HELLO),
    "chunked twice": post(b"Transfer-Encoding: chunked, chunked", body=HELLO),
    "another coding before chunked": post(b"Transfer-Encoding: gzip, chunked", body=HELLO),
    "an empty coding before chunked": post(b"Transfer-Encoding: ,chunked", body=HELLO),
    "an empty coding after chunked": post(b"Transfer-Encoding: chunked,", body=HELLO),
    "no coding": post(b"Transfer-Encoding: ", body=HELLO),
    "TE identity": post(b"Transfer-Encoding: identity", LENGTH, body=b"hello"),
    "TE with junk before": post(b"Transfer-Encoding: xchunked", LENGTH, body=HELLO),
    "TE with junk after": post(b"Transfer-Encoding: chunked;x", body=HELLO),
    "TE in quotes": post(b'Transfer-Encoding: "chunked"', body=HELLO),
    "TE after a vertical tab": post(b"Transfer-Encoding: \x0bchunked", body=HELLO),
    "TE in HTTP/1.0": post(CHUNKED, body=HELLO).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "CL twice, different": post(LENGTH, b"Content-Length: 6", body=b"hello"),
    "CL twice, the same": post(LENGTH, LENGTH, body=b"hello"),
    "CL as a list": post(b"Content-Length: 5, 5", body=b"hello"),
    "CL with a plus": post(b"Content-Length: +5", body=b"hello"),
    "CL with a minus": post(b"Content-Length: -5", body=b"hello"),
    "CL in hexadecimal": post(b"Content-Length: 0x5", body=b"hello"),
    "CL with an underscore": post(b"Content-Length: 0_5", body=b"hello"),
    "CL in Arabic digits": post("Content-Length: ٥".encode(), body=b"hello"),
    "CL beyond 64 bits": post(b"Content-Length: " + b"9" * 30, body=b"hello"),
    "a blank before the colon": post(b"Content-Length : 5", body=b"hello"),
    "bare CR in a header": post(b"X: a\rb", LENGTH, body=b"hello"),
    "NUL in a header": post(b"X: a\0b", LENGTH, body=b"hello"),
    "bare LF": GOOD.replace(b"\r\n", b"\n"),
    "a folded header": post(b"X: a\r\n b", LENGTH, body=b"hello"),
    "a folded TE": post(b"Transfer-Encoding:\r\n chunked", body=HELLO),
    "a header without a name": post(b": x", LENGTH, body=b"hello"),
    "a header without a colon": post(b"Foo", LENGTH, body=b"hello"),
    "two hosts": post(b"Host: other", LENGTH, body=b"hello"),
    "two content types": post(b"Content-Type: application/json", LENGTH, body=b"hello"),
    "LF in a chunk extension": post(CHUNKED, body=b"5;a\nb\r\nhello\r\n0\r\n\r\n"),
    "CR in a chunk extension": post(CHUNKED, body=b"5;a\rb\r\nhello\r\n0\r\n\r\n"),
    "LF after a chunk size": post(CHUNKED, body=b"5\nhello\r\n0\r\n\r\n"),
    "LF after a chunk": post(CHUNKED, body=b"5\r\nhello\n0\r\n\r\n"),
    "a chunk longer than it says": post(CHUNKED, body=b"5\r\nhelloo\r\n0\r\n\r\n"),
    "a chunk size beyond 64 bits": post(CHUNKED, body=b"f" * 17 + b"\r\nx\r\n0\r\n\r\n"),
    "a signed chunk size": post(CHUNKED, body=b"+5\r\nhello\r\n0\r\n\r\n"),
    "a chunk size with a prefix": post(CHUNKED, body=b"0x5\r\nhello\r\n0\r\n\r\n"),
    "a blank after a chunk size": post(CHUNKED, body=b"5 \r\nhello\r\n0\r\n\r\n"),
    "a length in the trailer": post(CHUNKED, body=b"5\r\nhello\r\n0\r\nContent-Length: 3\r\n\r\n"),
    "HTTP/0.9": b"POST /v1/tickets\r\n\r\n",
    "HTTP/1.2": GOOD.replace(b"HTTP/1.1", b"HTTP/1.2"),
    "HTTP/2.0": GOOD.replace(b"HTTP/1.1", b"HTTP/2.0"),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 not http\r\n\r\n",
}


@pytest.mark.parametrize("name", AMBIGUOUS)
async def test_ambiguous_framing_is_refused_and_the_connection_closed(door: RunningDoor, name: str) -> None:
    received = exchange(door, AMBIGUOUS[name])

    assert statuses(received) == [400], received
    assert b"application/problem+json" in received
    assert await door.queued() == 0


@pytest.mark.parametrize("name", AMBIGUOUS)
async def test_ambiguous_framing_behind_a_good_request_is_no_request(door: RunningDoor, name: str) -> None:
    received = exchange(door, GOOD + AMBIGUOUS[name] + GOOD)

    # Where both come in one piece the parser may forget the good one, too: then it was neither answered nor published.
    assert statuses(received) in ([202, 400], [400]), received
    assert await door.queued() == statuses(received).count(202)


UPGRADE = (b"Connection: upgrade", b"Upgrade: websocket")


@pytest.mark.parametrize("name", ["another coding before chunked", "TE in HTTP/1.0", "HTTP/1.2"])
async def test_what_follows_a_wish_for_another_protocol_is_never_read(door: RunningDoor, name: str) -> None:
    received = exchange(door, post(*UPGRADE, LENGTH, body=b"hello") + AMBIGUOUS[name] + GOOD)

    assert statuses(received) in ([202], [400]), received
    assert await door.queued() == statuses(received).count(202)


async def test_a_wish_for_another_protocol_is_ignored_however_its_request_arrives(door: RunningDoor) -> None:
    with socket.create_connection(door.host_port, timeout=WITHIN) as line:
        line.sendall(post(*UPGRADE, CHUNKED, body=b"5\r\nhello\r\n"))
        await soon(lambda: _is(door, "lazaretto_inflight_bytes", 5.0))
        line.sendall(b"0\r\n\r\n")
        received = read_to_end(line)

    assert statuses(received) == [202], received
    assert await door.queued() == 1


async def test_a_good_request_is_answered_before_the_bad_one_that_follows_it(door: RunningDoor) -> None:
    with socket.create_connection(door.host_port, timeout=WITHIN) as line:
        line.sendall(GOOD)
        first = line.recv(65536)
        line.sendall(AMBIGUOUS["CL and TE"])
        received = first + read_to_end(line)

    assert statuses(received) == [202, 400]
    assert await door.queued() == 1


@pytest.mark.parametrize("tail", [b"zz\r\n", b"5;a\nb\r\nhello\r\n0\r\n\r\n", b"f" * 17 + b"\r\n"])
async def test_framing_that_breaks_in_the_middle_of_a_body_is_refused_at_once(door: RunningDoor, tail: bytes) -> None:
    held = "lazaretto_inflight_bytes"
    with socket.create_connection(door.host_port, timeout=WITHIN) as line:
        line.sendall(post(CHUNKED, body=b"5\r\nhello\r\n"))
        await soon(lambda: _is(door, held, 5.0))
        line.sendall(tail)
        received = read_to_end(line)

    assert statuses(received) == [400], received  # and no 408, for which it would have to wait
    assert b'"body_broken"' in received
    assert await door.queued() == 0


async def _is(door: RunningDoor, metric: str, value: float) -> bool:
    return await door.metric(metric) == value


@pytest.mark.parametrize(
    "body",
    [b"1\r\nx\r\n" * 200_000, b"5;" + b"a" * 1_000_000 + b"\r\nhello\r\n", b"0" * 1_000_000],
    ids=["chunks of one byte", "an endless extension", "an endless size"],
)
async def test_framing_that_outweighs_its_content_is_refused(door: RunningDoor, body: bytes) -> None:
    received = exchange(door, post(CHUNKED), body)

    assert statuses(received) == [400], received
    assert await door.queued() == 0


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
async def test_small_chunks_are_read_all_the_same(door: RunningDoor, size: int) -> None:
    pieces = [b"a" * size] * 5_000
    received = exchange(door, post(CHUNKED, b"Connection: close", body=chunked(*pieces[: 18_000 // size])))

    assert statuses(received) == [202], received


@pytest.mark.parametrize(
    "sent",
    [
        post(b"X-Long: " + b"a" * 9000, LENGTH, body=b"hello"),
        post(*[b"X-%d: a" % number for number in range(100)], LENGTH, body=b"hello"),
        b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: door\r\n\r\n",
        post(CHUNKED, body=b"0\r\n" + b"X: y\r\n" * 1000 + b"\r\n"),
    ],
    ids=["one long header", "many headers", "long request line", "many trailers"],
)
async def test_oversized_headers_are_refused_as_such(door: RunningDoor, sent: bytes) -> None:
    received = exchange(door, sent)

    assert statuses(received) == [431], received
    assert b"application/problem+json" in received


async def test_a_head_without_an_end_is_not_held_for_ever(door: RunningDoor) -> None:
    headers = b"".join(b"X-%d: %b\r\n" % (number, b"a" * 8000) for number in range(30))
    received = exchange(door, post().removesuffix(b"\r\n") + headers)

    assert statuses(received) == [431], received


async def test_a_refused_head_is_answered_although_much_follows_it(door: RunningDoor) -> None:
    received = exchange(door, AMBIGUOUS["CL and TE"], *[MEGABYTE] * 5)

    assert statuses(received) == [400], received


@pytest.mark.parametrize("framing", [b"Content-Length: 500000000", CHUNKED], ids=["declared", "chunked"])
async def test_who_uploads_500_mb_before_it_reads_learns_that_this_is_too_large(
    door: RunningDoor, framing: bytes
) -> None:
    sent = 0
    chunk = MEGABYTE if framing is not CHUNKED else b"%x\r\n%b\r\n" % (len(MEGABYTE), MEGABYTE)
    with socket.create_connection(door.host_port, timeout=WITHIN) as line:
        line.sendall(post(framing))
        try:
            while sent < 500_000_000:
                line.sendall(chunk)
                sent += len(chunk)
        except OSError:
            pass  # the door has had enough; what it said before lies in the receive buffer
        received = line.recv(65536)

    assert statuses(received) == [413], received
    assert sent < 100_000_000  # what is drained, and what the buffers of both ends hold


def test_the_compiled_parser_is_in_use() -> None:
    assert http_parser.HttpRequestParser is not http_parser.HttpRequestParserPy
