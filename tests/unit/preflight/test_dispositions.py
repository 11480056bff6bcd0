"""The disposition of a part is read as its writer meant it: as RFC 2183 quotes, and as browsers do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.preflight.media_type import parse_form_parameters, parse_parameters

_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=60)
_MADE_OF_TROUBLE = st.text(st.sampled_from('\\";= \t,%aname*\u00e9\n'), max_size=60)


def _as_rfc_2183(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _as_browsers(value: str) -> str:
    return value.replace('"', "%22")


@given(_TEXTS | _MADE_OF_TROUBLE, _TEXTS | _MADE_OF_TROUBLE)
def test_whatever_was_quoted_by_the_book_comes_back(name: str, filename: str) -> None:
    name, filename = name.replace("\n", ""), filename.replace("\n", "")
    written = f'; name="{_as_rfc_2183(name)}"; filename="{_as_rfc_2183(filename)}"'

    assert parse_form_parameters(written) == {"name": name, "filename": filename}


@given(_TEXTS | _MADE_OF_TROUBLE, _TEXTS | _MADE_OF_TROUBLE)
def test_whatever_a_browser_wrote_comes_back_unless_it_could_be_by_the_book(name: str, filename: str) -> None:
    name, filename = _as_browsers(name.replace("\n", "")), _as_browsers(filename.replace("\n", ""))
    written = f'; name="{name}"; filename="{filename}"'
    by_the_book = parse_parameters(written)

    found = parse_form_parameters(written)

    assert found == ({"name": name, "filename": filename} if by_the_book is None else by_the_book)
    if "\\\\" not in written and '\\"' not in written:
        assert found == {"name": name, "filename": filename}


@given(_MADE_OF_TROUBLE)
def test_no_header_is_read_in_another_way_than_by_the_book_if_it_can_be(rest: str) -> None:
    by_the_book = parse_parameters(rest)

    assert by_the_book is None or parse_form_parameters(rest) == by_the_book


@pytest.mark.parametrize(
    ("written", "parameters"),
    [
        ('; name="a\\"', {"name": "a\\"}),
        ('; name="a\\"; filename="C:\\temp\\"', {"name": "a\\", "filename": "C:\\temp\\"}),
        ('; name="a\\"; filename="b"; x=y', {"name": "a\\", "filename": "b", "x": "y"}),
        ('; name="a\\\\"', {"name": "a\\"}),
        ('; name="say \\"hi\\""', {"name": 'say "hi"'}),
        ('; name="\\"', {"name": "\\"}),
        ('; name="a\\', None),
        ('; name="a" b', None),
        ('; name="a\\"; name="b\\"', None),
    ],
)
def test_a_backslash_before_the_last_quote_belongs_to_the_name(written: str, parameters: dict[str, str] | None) -> None:
    assert parse_form_parameters(written) == parameters


@pytest.mark.parametrize("unit", ['; a="\\"', '"\\', "\\", ";", '; a="b\\"c'])
def test_hostile_headers_are_read_in_one_pass(unit: str) -> None:
    parse_form_parameters((unit * 200_000)[:1_000_000])  # the suite's own time limit would end anything else
