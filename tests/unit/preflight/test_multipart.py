"""Multipart bodies are split strictly, at a bounded cost, and file names survive in every form clients send."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.preflight.media_type import MediaType, parse_media_type
from gateway.preflight.multipart import BadMultipart, Part, TooManyParts, read_parts

_FORM = MediaType(essence="multipart/form-data", parameters={"boundary": "xx"})


def _read(body: bytes, *, max_parts: int = 11) -> tuple[Part, ...] | BadMultipart | TooManyParts:
    return read_parts(body, _FORM, max_parts=max_parts)


def _body(*parts: bytes) -> bytes:
    return b"".join(b"--xx\r\n" + part + b"\r\n" for part in parts) + b"--xx--\r\n"


def _named(disposition: bytes) -> Part:
    parts = _read(_body(b'Content-Disposition: form-data; name="f"; ' + disposition + b"\r\n\r\ncontent"))
    assert isinstance(parts, tuple), parts
    return parts[0]


@given(st.lists(st.binary(max_size=200).filter(lambda content: b"\r\n--xx" not in b"\r\n" + content), min_size=1))
def test_contents_come_back_byte_for_byte(contents: list[bytes]) -> None:
    body = _body(*(b'Content-Disposition: form-data; name="a"\r\n\r\n' + content for content in contents))
    parts = _read(body, max_parts=len(contents))
    assert isinstance(parts, tuple)
    assert [part.content for part in parts] == contents


@given(st.binary(max_size=400))
def test_no_bytes_ever_raise(body: bytes) -> None:
    for framed in (body, b"--xx\r\n" + body, _body(body), _body(b"Content-Disposition: " + body)):
        assert isinstance(_read(framed), tuple | BadMultipart | TooManyParts)


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        (b'filename="plain.txt"', "plain.txt"),
        ('filename="журнал.txt"'.encode(), "журнал.txt"),
        ('filename="déjà.txt"'.encode("latin-1"), "déjà.txt"),
        (b"filename=\"x\"; filename*=UTF-8''%D0%B6.txt", "ж.txt"),
        (b"filename*=iso-8859-1'fr'd%E9j%E0.txt", "déjà.txt"),
        (b'filename="a%22b.txt"', 'a"b.txt'),
        (b'filename="a\\"b.txt"', 'a"b.txt'),
        (b'filename="C:\\Users\\me\\a.txt"', "C:\\Users\\me\\a.txt"),
        (b'filename=""', ""),
    ],
)
def test_every_form_of_a_file_name_is_understood(disposition: bytes, name: str) -> None:
    assert _named(disposition).filename == name


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--xx--\r\n",
        b"--yy\r\n\r\n--yy--",
        _body(b'Content-Disposition: form-data; name="a"\r\n\r\nx')[:-6],
        _body(b"\r\nno headers"),
        _body(b'Content-Disposition: attachment; name="a"\r\n\r\nx'),
        _body(b"Content-Disposition: form-data\r\n\r\nx"),
        _body(b'Content-Disposition: form-data; name="a"; name="b"\r\n\r\nx'),
        _body(b'Content-Disposition: form-data; name="a"\r\nContent-Disposition: form-data; name="b"\r\n\r\nx'),
        _body(b'Content-Disposition: form-data; name="a"\r\nContent-Transfer-Encoding: base64\r\n\r\neA=='),
        _body(b'Content-Disposition: form-data; name="a"\r\nContent-Type: nonsense\r\n\r\nx'),
        _body(b'Content-Disposition: form-data; name="a"\r\n folded\r\n\r\nx'),
        _body(b"X: y\r\n" * 20 + b'Content-Disposition: form-data; name="a"\r\n\r\nx'),
        _body(b'Content-Disposition: form-data; name="' + b"a" * 5000 + b'"\r\n\r\nx'),
        b"--xxyy\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--xx--",
    ],
)  # fmt: skip
def test_bad_framing_is_refused_in_words(body: bytes) -> None:
    read = _read(body)
    assert isinstance(read, BadMultipart)
    assert read.detail


def test_parts_are_counted_before_any_is_read() -> None:
    assert _read(b"--xx\r\nnot a part\r\n" * 50_000 + b"--xx--") == TooManyParts(parts=50_000)


def test_what_stands_before_and_after_the_parts_is_ignored() -> None:
    parts = _read(b"preamble\r\n" + _body(b'Content-Disposition: form-data; name="a"\r\n\r\nx') + b"epilogue")
    assert isinstance(parts, tuple)
    assert parts[0].content == b"x"


@pytest.mark.parametrize(
    "value", ["", "text", "text/", "/plain", "text/plain; a=b; a=c", "text/plain; =", "téxt/plain"]
)
def test_a_malformed_content_type_is_none(value: str) -> None:
    assert parse_media_type(value) is None


def test_a_content_type_that_no_message_could_carry_is_none() -> None:
    assert parse_media_type("text/plain; charset=" + "x" * 300) is None


def test_content_types_are_read_as_clients_write_them() -> None:
    read = parse_media_type('Text/Plain ; Charset="utf-8";')
    assert read == MediaType(essence="text/plain", parameters={"charset": "utf-8"})
