"""JSON is read only where every reader would read the same, and no body makes the reading expensive."""

from __future__ import annotations

import codecs
import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission import Rule, Violation
from gateway.preflight.json_body import LONGEST_QUOTE, Document, quoted, read_json


@pytest.mark.parametrize(
    ("body", "rule", "offset"),
    [
        (b"", Rule.JSON_MALFORMED, 0),
        (b'{"a":}', Rule.JSON_MALFORMED, 5),
        ('{"éé":"x", "b" 1}'.encode(), Rule.JSON_MALFORMED, 17),
        (b"[NaN]", Rule.JSON_MALFORMED, 1),
        (b'{"a":"\xff"}', Rule.JSON_INVALID_UTF8, 6),
        (codecs.BOM_UTF8 + b"{}", Rule.JSON_BOM, 0),
        (codecs.BOM_UTF16_LE + "{}".encode("utf-16-le"), Rule.JSON_BOM, 0),
        (b'{"a":"\\ud83d"}', Rule.JSON_LONE_SURROGATE, 6),
        (b'{"\\ud83d":1}', Rule.JSON_LONE_SURROGATE, 2),
        (b'{"a":1,"a":2}', Rule.JSON_DUPLICATE_KEY, 7),
        (b'{"a":1,"\\u0061":2}', Rule.JSON_DUPLICATE_KEY, 7),
        (b'[{"x":{"k":"\\"}","k" :1}}]', Rule.JSON_DUPLICATE_KEY, 17),
        (b"[" * 200_000, Rule.JSON_NESTING, None),
        (b"[" * 200 + b"]" * 200, Rule.JSON_NESTING, 128),
        (b'{"a":' * 1100 + b"1" + b"}" * 1100, Rule.JSON_NESTING, None),
        (b'{"a":18446744073709551616}', Rule.JSON_INTEGER_RANGE, 5),
        (b"[-9223372036854775809]", Rule.JSON_INTEGER_RANGE, 1),
    ],
)
def test_what_readers_disagree_on_is_refused_with_its_place(body: bytes, rule: Rule, offset: int | None) -> None:
    read = read_json(body)
    assert isinstance(read, Violation)
    assert read.rule is rule
    assert offset is None or read.offset == offset


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":[{"b":1},{"b":2}],"b":{"a":{}},"c":"\\"a\\":1"}',
        b"[18446744073709551615,-9223372036854775808,1.8446744073709552e+19]",
        b'"123456789012345678901234567890"',
        b"[" * 128 + b"]" * 128,
        b'{"":0," ":1,"\\n":2}',
    ],
)
def test_what_all_readers_agree_on_is_read(body: bytes) -> None:
    assert read_json(body) == Document(json.loads(body))


def test_the_answer_names_the_encoding_a_foreign_mark_stands_for() -> None:
    read = read_json(codecs.BOM_UTF16_LE + "{}".encode("utf-16-le"))
    assert isinstance(read, Violation)
    assert read.hint == "utf-16le"


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(_values)
def test_any_value_comes_back_on_the_quick_and_on_the_exact_road(value: object) -> None:
    roads: list[list[object]] = [[], [[]] * 200]
    for others in roads:  # with more brackets than the depth allows, the exact scanner looks
        body = orjson.dumps([value, *others])
        assert read_json(body) == Document(orjson.loads(body))


@given(_values, st.text(max_size=4))
def test_a_repeated_key_is_found_wherever_it_is(value: object, key: str) -> None:
    inner = b"{%b:1,%b:2}" % (orjson.dumps(key), orjson.dumps(key))
    body = b"[%b,{%b:[%b]}]" % (orjson.dumps(value), orjson.dumps(key + "x"), inner)
    read = read_json(body)
    assert isinstance(read, Violation)
    assert read.rule is Rule.JSON_DUPLICATE_KEY
    assert read.offset == body.rindex(orjson.dumps(key) + b":2")


@given(st.binary(max_size=300))
def test_no_bytes_ever_raise(body: bytes) -> None:
    assert isinstance(read_json(body), Document | Violation)


def test_a_quoted_name_is_short_and_shows_no_controls() -> None:
    shown = quoted("\x1b[31m" + "x" * 1000)
    assert len(shown) == LONGEST_QUOTE + 2
    assert shown.isprintable()
