"""Requests that nobody sends by accident, the same in every run: whole, broken, endless, and the worst that are known.

Owns recipes, no bulk. Each request is bytes to be written to a connection of its own.
"""

import gzip
import json
import random
import zlib
from collections.abc import Callable, Iterator
from typing import Final

FULL: Final = 524_288
_CHARSETS: Final = (
    "utf-8",
    "latin1",
    "utf-16",
    "shift_jis",
    "gb18030",
    "iso-2022-jp",
    "utf-7",
    "x-mac-foo",
    "punycode",
)
_WORDS: Final = (b'"', b"\\", b"{", b"[", b"]}", b"\xff", b"\0", b"\xed\xa0\x80", b"\\ud800", b"1e999", b"9" * 400)
_LINES: Final = (
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Content-Length: 5",
    b"Content-Length: +7",
    b"Content-Encoding: br",
    b"Content-Encoding: zstd",
    b"Content-Encoding: gzip",
    b"Expect: 100-continue",
    b"X: a\rb",
    b" folded",
    b"X-Long: " + b"a" * 9000,
    b"Idempotency-Key: \xff",
    b"Lazaretto-Kind: \xed\xa0\x80",
    b"traceparent: " + b"0" * 4000,
    b"Accept: text/html",
    b"Connection: Upgrade",
)


def worst() -> list[bytes]:
    """Bodies at the limit that cost the checks most, whole requests that are well-formed HTTP."""
    nested = b'{"kind":"a","body":"x","attributes":{"a":[' + b'{"a":1},' * 49_000 + b"1]}}"
    lists = b'{"kind":"a","body":"x","attributes":{"a":[' + b"[]," * 99_900 + b"1]}}"
    members = b",".join(b'"%x":0' % number for number in range(49_000))
    keys = b'{"kind":"a","body":"x","attributes":{' + members + b"}}"
    chosen = random.Random(9417)
    legacy = bytes(chosen.choice(range(0x80, 0x100)) if at % 3 else 0x20 for at in range(FULL))
    texts = (b"\n" * FULL, b" " * (FULL - 1) + b".", b"a" * FULL, "👩‍👩‍👧🏽".encode() * (FULL // 26), legacy)
    return [
        *(_post(b"application/json", body) for body in (nested, lists, keys)),
        *(_post(b"text/plain", body) for body in texts),
    ]


def generated(count: int, *, seed: int) -> Iterator[bytes]:
    """Yield `count` requests; one in fifty is among the worst."""
    chosen = random.Random(seed)
    heaviest = worst()
    recipes: tuple[Callable[[random.Random], bytes], ...] = (_json, _text, _multipart, _coded, _framing, _noise)
    for number in range(count):
        yield chosen.choice(heaviest) if number % 50 == 0 else chosen.choice(recipes)(chosen)


def _post(content_type: bytes, body: bytes, *lines: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    head = (b"POST /v1/tickets?kind=a HTTP/1.1", b"Host: a", b"Content-Type: " + content_type, *lines)
    return b"\r\n".join((*head, b"Content-Length: %d" % size)) + b"\r\n\r\n" + body


def _wounded(chosen: random.Random, body: bytes) -> bytes:
    for _ in range(chosen.randrange(4)):
        at = chosen.randrange(len(body) + 1)
        body = body[:at] + chosen.choice(_WORDS) * chosen.choice((1, 1, 50)) + body[at + chosen.randrange(3) :]
    return body


def _json(chosen: random.Random) -> bytes:
    value: object = chosen.choice(("x", 1, None, [], {}, "\ud83d", "\0", 10**30, 1e308, float("inf")))
    for _ in range(chosen.randrange(200)):
        value = [value] if chosen.getrandbits(1) else {chosen.choice("abc"): value}
    ticket: dict[str, object] = {"kind": "a", "body": "x" * chosen.randrange(2000), "attributes": {"a": value}}
    if not chosen.randrange(3):
        ticket["attachments"] = [{"name": "../\x00\u202e" * 9, "content_base64": "!"}] * chosen.randrange(20)
    return _post(b"application/json", _wounded(chosen, json.dumps(ticket).encode()))


def _text(chosen: random.Random) -> bytes:
    body = chosen.randbytes(chosen.randrange(3000)) if chosen.getrandbits(1) else "Größe 大 \n".encode() * 200
    charset = chosen.choice(_CHARSETS).encode()
    return _post(chosen.choice((b"text/plain", b"text/plain; charset=" + charset)), _wounded(chosen, body))


def _multipart(chosen: random.Random) -> bytes:
    part = b'--b\r\nContent-Disposition: form-data; name="%b"%b\r\nContent-Type: %b\r\n\r\n%b\r\n'
    names = (b"body", b"ticket", b"file", b"\xff", b"a" * 5000)
    files = (b"", b'; filename="..\\\\..\\x"', b"; filename*=utf-8''%ED%A0%80", b'; filename="\xe9"')
    types = (b"text/plain", b"application/json", b"text/plain; charset=rot13", b"multipart/mixed; boundary=b", b"")
    parts = [
        part % (chosen.choice(names), chosen.choice(files), chosen.choice(types), chosen.randbytes(20))
        for _ in range(chosen.choice((1, 2, 5, 2000)))
    ]
    return _post(b"multipart/form-data; boundary=b", _wounded(chosen, b"".join(parts) + b"--b--\r\n"))


def _coded(chosen: random.Random) -> bytes:
    content = chosen.choice((b"hello", b"\0" * 5_000_000, chosen.randbytes(5000)))
    coding, body = chosen.choice(
        (
            (b"gzip", gzip.compress(content, 1)),
            (b"gzip", gzip.compress(b"") * 300),
            (b"deflate", zlib.compress(content)),
        )
    )
    return _post(b"text/plain", _wounded(chosen, body), b"Content-Encoding: " + coding)


def _framing(chosen: random.Random) -> bytes:
    lines = chosen.sample(_LINES, chosen.randrange(1, 4))
    chunks = b"5\r\nhello\r\n0\r\n\r\n", b"5;a\nb\r\nhello\r\n0\r\n\r\n", b"f" * 20 + b"\r\n", b"1\r\nx\r\n" * 20_000
    return _post(b"text/plain", chosen.choice((b"hello", *chunks)), *lines, length=chosen.choice((5, 0, 6, 10**12)))


def _noise(chosen: random.Random) -> bytes:
    request = _post(b"text/plain", b"hello")
    for _ in range(chosen.randrange(1, 6)):
        at = chosen.randrange(len(request))
        request = request[:at] + chosen.randbytes(chosen.randrange(3)) + request[at + chosen.randrange(2) :]
    return request
