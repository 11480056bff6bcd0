"""The preview of a body is safe text and never ends in half a character (D44)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.station.desk.preview import preview


@given(text=st.text("aü漢😀", min_size=1, max_size=20), cut=st.integers(0, 80))
def test_a_cut_anywhere_shows_only_whole_characters(text: str, cut: int) -> None:
    body = text.encode()
    head = body[:cut]
    shown = preview(head, size=len(body), charset=None)
    assert text.startswith(shown.text)
    assert shown.cut == (len(head) < len(body))


def test_bytes_that_fit_no_charset_are_replaced_not_refused() -> None:
    assert preview(b"a\xffb", size=3, charset="no-such-charset").text == "a\ufffdb"


def test_the_measured_charset_is_used() -> None:
    body = "Käse".encode("utf-16")
    assert preview(body, size=len(body), charset="utf-16").text == "Käse"


def test_what_acts_or_hides_is_made_visible() -> None:
    body = "a\x00\x1b[2J\u202eb\u200b\x7f\n".encode()
    assert preview(body, size=len(body), charset="utf-8").text == "a\u2400\u241b[2J\\u202eb\\u200b\u2421\n"


@pytest.mark.parametrize("name", ["hex", "zlib", "undefined", "idna", "no\x00name", "\ud800", "unicode_escape", ""])
def test_a_name_that_is_no_charset_harms_nobody(name: str) -> None:
    assert preview(b"abc", size=3, charset=name).text == "abc"
