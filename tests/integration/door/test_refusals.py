"""Every no of the door: the right status, the right words, nothing published, nothing echoed."""

import gzip
import socket
import zlib

import aiohttp
import brotli
import pytest
from backports import zstd

from tests.integration.door.bare import post, read_to_end
from tests.integration.door.running import TICKET, Answer, RunningDoor
from tests.support.waiting import PATIENCE

SECRET = "hunter2-do-not-repeat-me"


def _rules(answer: Answer) -> list[str]:
    return [violation["rule"] for violation in answer.document["violations"]]


async def _json(door: RunningDoor, body: bytes) -> Answer:
    return await door.ask("POST", "/v1/tickets", data=body, headers={"Content-Type": "application/json"})


async def test_a_problem_has_every_member_and_the_request_id_of_its_answer(door: RunningDoor) -> None:
    answer = await door.submit_text(b"x" * 600_000)

    assert answer.status == 413
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.document["request_id"] == answer.headers["Request-Id"]
    assert {"type", "title", "status", "detail", "instance", "retryable"} <= answer.document.keys()
    (violation,) = answer.document["violations"]
    assert (violation["rule"], violation["limit"], violation["actual"]) == ("body_too_large", 524_288, 600_000)


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (b'{"kind": "support.ticket", "body": "x"', "json_malformed"),
        (b'\xef\xbb\xbf{"kind": "support.ticket", "body": "x"}', "json_bom"),
        (b'{"kind": "support.ticket", "body": "\\ud83d"}', "json_lone_surrogate"),
        (b'{"kind": "support.ticket", "body": "x", "attributes": {"\\ud83d": 1}}', "json_lone_surrogate"),
        (b'{"kind": "support.ticket", "body": "x", "body": "y"}', "json_duplicate_key"),
        (b"[" * 200_000, "json_nesting"),
        (b'{"kind": "support.ticket", "body": "\xff"}', "json_invalid_utf8"),
    ],
)
async def test_json_that_is_not_is_malformed(door: RunningDoor, body: bytes, rule: str) -> None:
    answer = await _json(door, body)

    assert (answer.status, _rules(answer)) == (400, [rule])
    assert await door.queued() == 0


async def test_malformed_json_is_named_by_its_offset(door: RunningDoor) -> None:
    answer = await _json(door, b'{"kind": nonsense}')

    assert answer.document["violations"][0]["offset"] == 9


@pytest.mark.parametrize(
    ("body", "content_type", "status", "rule"),
    [
        (b"x", "text/plain; charset=x-mac-foo", 415, "unsupported_charset"),
        (b"x", "application/pdf", 415, "unsupported_content_type"),
        ("größer".encode("latin-1"), "text/plain; charset=utf-8", 422, "charset_mismatch"),
        (b"\x81" * 40, "text/plain", 422, "undecodable"),
        (b"before\0after", "text/plain", 422, "nul"),
        (bytes(range(256)) * 4, "text/plain", 422, "binary"),
        (b"", "text/plain", 422, "empty"),
    ],
)
async def test_text_that_cannot_be_text_is_refused(
    door: RunningDoor, body: bytes, content_type: str, status: int, rule: str
) -> None:
    answer = await door.submit_text(body, content_type)

    assert answer.status == status, answer.text
    assert _rules(answer) == [rule]
    assert await door.queued() == 0


_FIELD = b'--b\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b\r\n'
_TEXT = _FIELD % (b"body", b"", b"hello")


@pytest.mark.parametrize(
    ("parts", "status", "rule"),
    [
        (_TEXT + _FIELD % (b"f", b"\r\nContent-Type: text/plain; charset=x-mac-foo", b"x"), 415, "unsupported_charset"),
        (_TEXT + _FIELD % (b"f", b"", b"caf\xe9"), 422, "undecodable"),
        (_TEXT + _FIELD % (b"f", b'; filename="' + b"a" * 300_000 + b'"', b"x"), 400, "multipart_malformed"),
        (_TEXT + _FIELD % (b"f", b"", b"") * 6_000, 422, "too_many_attachments"),
        (_TEXT + _TEXT, 400, "multipart_malformed"),
        (_TEXT.replace(b"\r\n", b"\n"), 400, "multipart_malformed"),
    ],
    ids=[
        "a field's unknown charset",
        "a field without charset",
        "a huge header",
        "tiny parts",
        "two bodies",
        "bare LF",
    ],
)
async def test_a_form_is_refused_for_what_one_part_of_it_is(
    door: RunningDoor, parts: bytes, status: int, rule: str
) -> None:
    answer = await door.submit_text(parts + b"--b--\r\n", "multipart/form-data; boundary=b")

    assert (answer.status, _rules(answer)) == (status, [rule])
    assert await door.queued() == 0


@pytest.mark.parametrize("where", [b"preamble" * 80_000 + b"\r\n%b--b--\r\n", b"%b--b--\r\n" + b"epilogue" * 80_000])
async def test_what_stands_around_the_parts_counts_as_well(door: RunningDoor, where: bytes) -> None:
    answer = await door.submit_text(where % _TEXT, "multipart/form-data; boundary=b")

    assert (answer.status, _rules(answer)) == (413, ["body_too_large"])


async def test_json_in_another_charset_is_refused_unless_it_is_ascii(door: RunningDoor) -> None:
    latin1 = {"Content-Type": "application/json; charset=iso-8859-1"}
    body = '{"kind": "support.ticket", "body": "é"}'

    refused = await door.ask("POST", "/v1/tickets", data=body.encode(), headers=latin1)
    taken = await door.ask("POST", "/v1/tickets", data=body.replace("é", "e").encode(), headers=latin1)

    assert (refused.status, _rules(refused), taken.status) == (415, ["unsupported_charset"], 202)


async def test_nul_inside_json_is_refused_because_no_store_can_hold_it(door: RunningDoor) -> None:
    answer = await _json(door, b'{"kind": "support.ticket", "body": "a\\u0000b"}')

    assert (answer.status, _rules(answer)) == (422, ["nul"])


async def test_more_tokens_than_the_cap_are_refused_with_both_numbers(door: RunningDoor) -> None:
    answer = await door.submit_text(b"z q " * 30_000)

    assert (answer.status, _rules(answer)) == (422, ["too_many_tokens"])
    (violation,) = answer.document["violations"]
    assert violation["limit"] == 20_000 < violation["actual"]


async def test_too_many_attachments_are_refused(door: RunningDoor) -> None:
    attachments = [{"name": f"{number}.txt", "content": "x"} for number in range(11)]

    answer = await door.submit({**TICKET, "attachments": attachments})

    assert (answer.status, _rules(answer)) == (422, ["too_many_attachments"])


async def test_a_body_that_grows_over_the_cap_is_refused_in_every_form(door: RunningDoor) -> None:
    bomb = b"\0" * 50_000_000

    async def pieces() -> object:
        for _ in range(12):
            yield b"x" * 65_536

    file = aiohttp.FormData()
    file.add_field("body", "x")
    file.add_field("file", b"x" * 600_000, filename="big.bin")
    field = aiohttp.FormData()
    field.add_field("body", "x" * 600_000)
    url = "/v1/tickets?kind=support.ticket"
    plain = {"Content-Type": "text/plain"}
    answers = {
        "declared": await door.submit_text(b"x" * 600_000),
        "chunked": await door.ask("POST", url, data=pieces(), headers=plain),
        "gzip": await door.submit_text(gzip.compress(bomb), Content_Encoding="gzip"),
        "deflate": await door.submit_text(zlib.compress(bomb), Content_Encoding="deflate"),
        "zstd": await door.submit_text(zstd.compress(bomb), Content_Encoding="zstd"),
        "br": await door.submit_text(brotli.compress(bomb, quality=5), Content_Encoding="br"),
        "file": await door.ask("POST", url, data=file),
        "field": await door.ask("POST", url, data=field),
    }

    assert {name: answer.status for name, answer in answers.items()} == dict.fromkeys(answers, 413)
    assert await door.queued() == 0


async def test_an_unknown_content_encoding_is_refused_by_name(door: RunningDoor) -> None:
    answer = await door.submit_text(b"x", Content_Encoding="compress")

    assert (answer.status, _rules(answer)) == (415, ["unsupported_content_encoding"])
    assert "gzip" in answer.document["violations"][0]["limit"]


@pytest.mark.parametrize("body", [b"plain", gzip.compress(b"x" * 1000, mtime=0)[:-12]])
async def test_a_broken_content_encoding_is_malformed(door: RunningDoor, body: bytes) -> None:
    answer = await door.submit_text(body, Content_Encoding="gzip")

    assert (answer.status, _rules(answer)) == (400, ["broken_content_encoding"])


@pytest.mark.parametrize("key", ["", "ungültig".encode().decode("latin-1"), "a" * 300, 'a"b', "a b"])
async def test_a_bad_key_is_refused(door: RunningDoor, key: str) -> None:
    answer = await door.submit(Idempotency_Key=key)

    assert answer.status == 400
    assert answer.document["type"].endswith("bad-idempotency-key")


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/nothing", {}, 404),
        ("GET", "/v1/tickets/no-such-ticket", {}, 404),
        ("GET", "/v1/tickets/%00%0a", {}, 404),
        ("PUT", "/v1/tickets", {}, 405),
        ("DELETE", "/v1/tickets/x", {}, 405),
        ("POST", "/v1/tickets", {"Accept": "text/html"}, 406),
    ],
)
async def test_what_is_not_there_is_a_problem_too(
    door: RunningDoor, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    answer = await door.ask(method, path, headers=headers)

    assert (answer.status, answer.document["status"]) == (status, status)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert ("Allow" in answer.headers) is (status == 405)


async def test_every_answer_has_a_request_id_and_forbids_guessing(door: RunningDoor) -> None:
    for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/v1/limits", "/nothing"):
        answer = await door.ask("GET", path)
        assert answer.headers["Request-Id"], path
        assert answer.headers["X-Content-Type-Options"] == "nosniff", path
        assert "aiohttp" not in answer.headers["Server"], path


async def test_nothing_of_a_payload_comes_back(door: RunningDoor) -> None:
    answers = [
        await _json(door, f'{{"kind": "support.ticket", "body": "{SECRET}'.encode()),
        await _json(door, f'{{"kind": "support.ticket", "body": 1, "attributes": "{SECRET}"}}'.encode()),
        await door.submit_text(SECRET.encode() + b"\0"),
        await door.submit_text(SECRET.encode(), "text/plain; charset=x-" + SECRET),
        await door.submit(Idempotency_Key=f"{SECRET} {SECRET}"),
    ]

    assert all(answer.status in {400, 415, 422} for answer in answers)
    assert not [answer.text for answer in answers if SECRET in answer.text]


@pytest.mark.parametrize(
    "sent",
    [
        post(b"Content-Length: 5", body=b"hello").replace(b"text/plain", b'text/plain; x="\xff\xed\xa0\x80"'),
        post(b"traceparent: \xff\xfe", b"tracestate: \xed\xa0\x80", b"Content-Length: 5", body=b"hello"),
        post(b"Lazaretto-Kind: \xff", b"Content-Length: 5", body=b"hello"),
        post(b"Content-Length: 40000", body=b"hello" * 8000).replace(b"text/plain", b"text/\xff\xed\xa0\x80"),
        post(b"Content-Length: 40000", body=b"hello" * 8000).replace(b"?kind=support.ticket", b"?kind=%ed%a0%80%00"),
        post(b"Lazaretto-Kind: \xff", b"Content-Length: 40000", body=b"hello" * 8000).replace(
            b"?kind=support.ticket", b""
        ),
        post(b"Idempotency-Key: \xff", b"Content-Length: 5", body=b"hello"),
        post(b"Accept: \xff, */*", b"Content-Length: 5", body=b"hello"),
        b"POST /v1/tickets?kind=%ff%00%0a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
        b"GET /v1/tickets/%ff%ed%a0%80 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /%ff%ed%a0%80 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET //// HTTP/1.1\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
async def test_bytes_that_are_no_text_in_headers_and_paths_never_break_the_door(door: RunningDoor, sent: bytes) -> None:
    with socket.create_connection(door.host_port, timeout=PATIENCE) as line:
        line.sendall(sent)
        status, _, rest = line.recv(65536).partition(b"\r\n")

    assert b" 500 " not in status, status
    assert b"Request-Id" in rest


async def test_a_body_that_never_ends_is_refused_at_the_deadline_and_harms_nobody(door: RunningDoor) -> None:
    stalled = [socket.create_connection(door.host_port, timeout=PATIENCE) for _ in range(50)]
    for line in stalled:
        line.sendall(post(b"Content-Length: 100", body=b"0123456789"))

    answer = await door.submit()

    assert answer.status == 202
    for line in stalled:
        received = read_to_end(line)
        line.close()
        assert b" 408 " in received.partition(b"\r\n")[0], received


async def test_a_client_that_asks_first_is_spared_an_upload_that_is_too_large(door: RunningDoor) -> None:
    with socket.create_connection(door.host_port, timeout=PATIENCE) as line:
        line.sendall(post(b"Expect: 100-continue", b"Content-Length: 600000"))
        assert line.recv(4096).startswith(b"HTTP/1.1 413 ")


async def test_a_client_that_asks_first_is_invited_when_its_body_may_fit(door: RunningDoor) -> None:
    with socket.create_connection(door.host_port, timeout=PATIENCE) as line:
        line.sendall(post(b"Expect: 100-continue", b"Content-Length: 5"))
        assert line.recv(100).startswith(b"HTTP/1.1 100 ")
        line.sendall(b"hello")
        assert line.recv(4096).startswith(b"HTTP/1.1 202 ")
