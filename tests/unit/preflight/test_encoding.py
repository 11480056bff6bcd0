"""Bytes become text by a mark, a declaration, ASCII or UTF-8, and never by a guess that nobody asked for."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission import Rule
from gateway.preflight.charsets import CODECS, SUPPORTED, codec_for
from gateway.preflight.encoding import CharsetSource, Decoded, Undecodable, read_text
from tests.unit.preflight.encoding_cases import CASES, EN, FR, JA, RU, Case, No, Ok


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_known_body_gets_its_verdict(case: Case) -> None:
    read = read_text(case.body, case.declared)
    match case.verdict:
        case Ok(charset=charset, warnings=warnings):
            assert isinstance(read, Decoded), read
            assert (read.charset, read.warnings) == (charset, warnings)
        case No(rule=rule, hint=hint):
            assert isinstance(read, Undecodable), read
            assert rule is None or read.rule is rule
            assert hint is None or read.hint == hint


def test_there_are_fifty_six_known_bodies() -> None:
    assert len(CASES) == 56


def test_a_mismatch_names_the_first_byte_that_does_not_decode() -> None:
    read = read_text("до".encode() + b"\xff" + "сле".encode(), "utf-8")
    assert isinstance(read, Undecodable)
    assert (read.rule, read.offset) == (Rule.CHARSET_MISMATCH, 4)


def test_damage_after_a_mark_is_counted_from_the_start_of_the_body() -> None:
    read = read_text(codecs.BOM_UTF8 + b"abc\xff")
    assert isinstance(read, Undecodable)
    assert (read.rule, read.offset) == (Rule.UNDECODABLE, 6)


def test_a_mark_alone_is_an_empty_text() -> None:
    read = read_text(codecs.BOM_UTF16_LE)
    assert isinstance(read, Undecodable)
    assert read.rule is Rule.EMPTY


def test_utf16_declared_without_an_end_is_not_overridden_by_either_mark() -> None:
    for mark, codec in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        read = read_text(mark + EN.encode(codec), "utf-16")
        assert isinstance(read, Decoded)
        assert (read.charset, read.source, read.warnings) == (codec, CharsetSource.BOM, ())


def test_a_guess_is_used_only_on_request_and_then_says_so() -> None:
    body = RU.encode("cp1251") * 30
    read = read_text(body, accept_detected=True)
    assert isinstance(read, Decoded)
    assert (read.text, read.charset, read.source) == (RU * 30, "cp1251", CharsetSource.DETECTED)


def test_a_few_foreign_lines_in_a_long_log_are_recognised_from_their_surroundings() -> None:
    body = (EN * 2000).encode() + (JA * 20).encode("cp932") + (EN * 2000).encode()
    read = read_text(body)
    assert isinstance(read, Undecodable)
    assert (read.rule, read.hint) == (Rule.CHARSET_UNDECLARED, "cp932")


def test_every_hint_can_be_declared() -> None:
    for case in CASES:
        read = read_text(case.body, case.declared)
        if isinstance(read, Undecodable) and read.hint is not None:
            assert codec_for(read.hint) is not None, read.hint


def test_a_kind_may_have_text_full_of_control_characters() -> None:
    body = b"8=FIX.4.4\x019=112\x0135=A\x01\n" * 200
    read = read_text(body, allow_controls=True)
    assert isinstance(read, Decoded)
    declared = read_text(body, "utf-8")
    assert isinstance(declared, Undecodable)
    assert declared.rule is Rule.CONTROL_CHARACTERS


def test_nul_in_a_declared_charset_is_refused_with_its_offset_in_bytes() -> None:
    read = read_text("é\0".encode("utf-16-le"), "utf-16le")
    assert isinstance(read, Undecodable)
    assert (read.rule, read.offset) == (Rule.NUL, 2)


def test_big_endian_text_without_a_mark_is_recognised_by_where_its_nuls_are() -> None:
    read = read_text(EN.encode("utf-16-be"))
    assert isinstance(read, Undecodable)
    assert read.hint == "utf-16be"


def test_every_label_means_a_codec_that_exists() -> None:
    for codec in set(CODECS.values()):
        codecs.lookup(codec)
    assert {codec_for(label) for label in SUPPORTED} == set(CODECS.values())


@pytest.mark.parametrize(
    ("label", "codec"),
    [
        ("ascii", "cp1252"),
        ("ISO-8859-1", "cp1252"),
        ("iso-8859-9", "cp1254"),
        ("tis-620", "cp874"),
        ("gb2312", "gb18030"),
        ("gbk", "gb18030"),
        ("big5", "big5hkscs"),
        ("shift_jis", "cp932"),
        ("euc-kr", "cp949"),
        ("ks_c_5601-1987", "cp949"),
        ("utf-16", "utf-16-le"),
        ("x-mac-foo", None),
        ("hz", None),
        ("rot13", None),
        ("utf8" + " " * 100_000, None),
    ],
)
def test_labels_mean_what_browsers_take_them_for(label: str, codec: str | None) -> None:
    assert codec_for(label) == codec


@given(st.binary(max_size=2000), st.none() | st.sampled_from(sorted(CODECS)) | st.text(max_size=20))
def test_no_bytes_and_no_label_ever_raise(body: bytes, declared: str | None) -> None:
    read = read_text(body, declared)
    assert isinstance(read, Decoded | Undecodable)
    if isinstance(read, Undecodable) and read.offset is not None:
        assert 0 <= read.offset <= len(body)


@given(st.text(min_size=1, max_size=300))
def test_what_is_admitted_as_utf8_is_the_text_itself(text: str) -> None:
    read = read_text(text.encode())
    if isinstance(read, Decoded):
        assert read.text == text.removeprefix("\ufeff")


def test_western_text_declared_as_windows_1252_is_read_back() -> None:
    read = read_text(FR.encode("cp1252"), "windows-1252")
    assert isinstance(read, Decoded)
    assert (read.text, read.source) == (FR, CharsetSource.DECLARED)
