"""Attachments are facts: a name to show, a type, bytes; and a text where they are text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission import Rule, Violation
from gateway.preflight.attachments import MAX_NAME_BYTES, Attachment, from_base64, from_bytes, from_text, shown_name


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\журнал.txt", "журнал.txt"),
        ("/", "attachment-3"),
        ("..", "attachment-3"),
        ("", "attachment-3"),
        (None, "attachment-3"),
        ("a\r\nb\0\x1b.txt", "ab.txt"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("bad\udce9.txt", "bad\ufffd\ufffd\ufffd.txt"),
        ("e\u0301.txt", "\u00e9.txt"),
        (".bashrc", ".bashrc"),
    ],
)
def test_a_name_is_made_fit_to_show_and_is_never_a_path(sent: str | None, shown: str) -> None:
    assert shown_name(sent, 2) == shown


def test_a_long_name_keeps_its_ending_and_whole_characters() -> None:
    shown = shown_name("👍🏽" * 200 + ".log", 0)
    assert shown.endswith("….log")
    assert len(shown.encode()) <= MAX_NAME_BYTES


@given(st.text(alphabet=st.characters(), max_size=400) | st.text(alphabet="a/\\.\ud800é👍", max_size=400))
def test_any_name_becomes_short_utf8_without_separators(sent: str) -> None:
    shown = shown_name(sent, 0)
    assert 0 < len(shown.encode()) <= MAX_NAME_BYTES
    assert not set(shown) & set("/\\\0\n")
    assert shown_name(shown, 0) == shown


def test_text_with_a_mark_is_read_in_its_charset() -> None:
    read = from_bytes(name="a", content_type="text/plain", content="\ufeffжурнал".encode("utf-16-le"), pointer="/x")
    assert isinstance(read, Attachment)
    assert read.text == "журнал"
    assert read.content == "\ufeffжурнал".encode("utf-16-le")


def test_text_that_cannot_be_read_is_refused_like_a_body() -> None:
    read = from_bytes(name="a", content_type="text/plain; charset=x-mac-foo", content=b"x", pointer="/attachments/0")
    assert isinstance(read, Violation)
    assert (read.rule, read.pointer) == (Rule.UNSUPPORTED_CHARSET, "/attachments/0")


def test_what_is_not_text_is_never_looked_into() -> None:
    bomb = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x9c\x40\0\0\x9c\x40"
    read = from_bytes(name="a", content_type="image/png", content=bomb, pointer="/x")
    assert isinstance(read, Attachment)
    assert read.text is None
    assert (read.facts.content_type, read.facts.bytes) == ("image/png", 24)


def test_an_empty_text_attachment_is_no_offence() -> None:
    read = from_bytes(name="a", content_type="text/plain", content=b"", pointer="/x")
    assert isinstance(read, Attachment)
    assert read.text == ""


@pytest.mark.parametrize("encoded", ["!", "abc", "YQ==\n", "é"])
def test_what_is_not_base64_is_refused(encoded: str) -> None:
    read = from_base64(name="a", content_type=None, encoded=encoded, pointer="/attachments/1")
    assert isinstance(read, Violation)
    assert (read.rule, read.pointer) == (Rule.ATTACHMENT_CONTENT, "/attachments/1/content_base64")


def test_a_malformed_type_is_refused() -> None:
    for read in (
        from_bytes(name="a", content_type="nonsense", content=b"x", pointer="/x"),
        from_text(name="a", content_type="nonsense", text="x", pointer="/x"),
    ):
        assert isinstance(read, Violation)
        assert read.rule is Rule.ATTACHMENT_TYPE


def test_nul_in_an_attached_text_is_refused() -> None:
    read = from_text(name="a", content_type=None, text="a\0b", pointer="/x")
    assert isinstance(read, Violation)
    assert read.rule is Rule.NUL
