"""What the first bytes say: the common types are known, their other names fit, and nothing is guessed."""

import gzip
import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.preflight.sniffing import fits, sniff

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
OOXML = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def _zip() -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("a", "b")
    return written.getvalue()


@pytest.mark.parametrize(
    ("content", "declared", "sniffed"),
    [
        (PNG, "image/png", "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpg", "image/jpeg"),
        (b"%PDF-1.7\n", "application/pdf", "application/pdf"),
        (_zip(), OOXML, "application/zip"),
        (_zip(), "application/epub+zip", "application/zip"),
        (gzip.compress(b"a"), "application/x-gzip", "application/gzip"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp", "image/webp"),
        (b"\0\0\0 ftypisom", "audio/mp4", "video/mp4"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/msword", "application/x-ole-storage"),
        (b"plain words", "text/plain", None),
        (b"", "text/plain", None),
    ],
    ids=["png", "jpg", "pdf", "ooxml", "epub", "gzip", "webp", "mp4", "ole", "text", "nothing"],
)
def test_what_is_what_it_is_called_fits(content: bytes, declared: str, sniffed: str | None) -> None:
    assert sniff(content) == sniffed
    assert fits(declared, sniffed)
    assert fits("application/octet-stream", sniffed)


@pytest.mark.parametrize(
    ("content", "declared"),
    [
        (PNG, "image/jpeg"),
        (PNG, "text/plain"),
        (b"<script>", "image/png"),
        (b"\x7fELF\2\1\1", "application/pdf"),
        (_zip(), "text/csv"),
        (_zip(), "image/svg+xml"),
    ],
    ids=["png as jpeg", "png as text", "text as png", "program as pdf", "zip as csv", "zip as svg"],
)
def test_what_is_called_otherwise_does_not(content: bytes, declared: str) -> None:
    assert not fits(declared, sniff(content))


@given(st.binary(max_size=64), st.text(max_size=40))
def test_no_content_and_no_name_of_a_type_is_too_strange(content: bytes, declared: str) -> None:
    assert fits(declared, sniff(content)) in {True, False}
