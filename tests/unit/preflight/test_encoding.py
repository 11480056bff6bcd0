"""Bytes become text by a mark, a declaration, ASCII or UTF-8, and never by a guess that nobody asked for."""

from __future__ import annotations

import codecs
import functools

import pytest
from hypothesis import assume, given
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
    read = read_text(body, waived={Rule.CONTROL_CHARACTERS})
    assert isinstance(read, Decoded)
    declared = read_text(body, "utf-8")
    assert isinstance(declared, Undecodable)
    assert declared.rule is Rule.CONTROL_CHARACTERS


def test_nul_in_a_declared_charset_is_refused_with_its_offset_in_bytes() -> None:
    read = read_text("é\0".encode("utf-16-le"), "utf-16le")
    assert isinstance(read, Undecodable)
    assert (read.rule, read.offset) == (Rule.NUL, 2)


@pytest.mark.parametrize(
    ("mark", "codec", "offset"),
    [(codecs.BOM_UTF8, "utf-8", 5), (codecs.BOM_UTF16_BE, "utf-16-be", 4), (codecs.BOM_UTF32_LE, "utf-32-le", 8)],
)
def test_the_mark_counts_in_an_offset(mark: bytes, codec: str, offset: int) -> None:
    read = read_text(mark + "é\0".encode(codec))
    assert isinstance(read, Undecodable)
    assert (read.rule, read.offset) == (Rule.NUL, offset)


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


_EVERYTHING = "".join(map(chr, (*range(0x20, 0xD800), *range(0xE000, 0xFFFD), 0x1F600, 0x20000, 0x2F804)))


@functools.cache
def _repertoire(codec: str) -> list[str]:
    """Return what a charset can say. Some bytes of what it takes it gives back as another character, its real one."""
    said = _EVERYTHING.encode(codec, "ignore").decode(codec, "replace")
    return sorted(set(said) & set(_EVERYTHING))


_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@given(st.data())
def test_whatever_a_charset_can_say_is_read_back_when_it_is_declared(data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from(sorted(set(CODECS.values()))))
    text = data.draw(st.text(alphabet=st.sampled_from(_repertoire(codec)), min_size=1, max_size=60))
    body = text.encode(codec)
    assume(not body.startswith(_MARKS))  # a mark is stronger than any declaration
    labels = [label for label, meant in CODECS.items() if meant == codec]
    read = read_text(body, data.draw(st.sampled_from(labels)))
    assert isinstance(read, Decoded), (codec, read)
    assert (read.text, read.charset, read.source) == (text, codec, CharsetSource.DECLARED)


@given(
    st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=60), st.sampled_from(_MARKS)
)
def test_a_mark_is_enough_to_read_any_text(text: str, mark: bytes) -> None:
    codec = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}[mark]
    assume(text.count("\ufffd") <= 10)
    read = read_text(mark + text.encode(codec))
    assert isinstance(read, Decoded)
    assert (read.text, read.charset, read.source) == (text, codec, CharsetSource.BOM)


@pytest.mark.parametrize(
    ("label", "body", "text"),
    [
        ("macintosh", b"\xdb", "€"),
        ("x-mac-cyrillic", b"\xa2\xb6\xff", "Ґґ€"),
        ("windows-874", b"\x80\xdb", None),
        ("windows-1255", b"\xca", None),
        ("iso-8859-8-i", b"\xe0", "א"),
        ("iso-8859-7", b"\xa4\xaa", "€ͺ"),
        ("shift_jis", b"\x81\x60\x81\x7c", "～－"),
        ("gbk", b"\x80", None),
        ("gb18030", b"\xa2\xe3", "€"),
        ("big5", b"\xa1\xc3", "￣"),
        ("unicode", b"a\0", "a"),
    ],
)
def test_bytes_mean_what_the_encoding_standard_says(label: str, body: bytes, text: str | None) -> None:
    read = read_text(body, label)
    assert (read.text if isinstance(read, Decoded) else None) == text
