"""JSON is read only where every reader would read the same, and no body makes the reading expensive."""

from __future__ import annotations

import codecs
import json
import math

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.admission import Rule, Violation
from gateway.preflight.json_body import LONGEST_NUMBER, LONGEST_QUOTE, Document, quoted, read_json


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
        (b"[1, 1e999]", Rule.JSON_NUMBER_RANGE, 4),
        (b"[-1e999]", Rule.JSON_NUMBER_RANGE, 1),
        (b'{"a":0.' + b"1" * 500_000 + b"}", Rule.JSON_NUMBER_RANGE, 5),
        (b"[" + b"9" * 500_000 + b"]", Rule.JSON_NUMBER_RANGE, 1),
        (b"[1e" + b"0" * 500 + b"]", Rule.JSON_NUMBER_RANGE, 1),
        (b"[Infinity]", Rule.JSON_MALFORMED, 1),
        (b"{} {}", Rule.JSON_MALFORMED, 3),
        (b"{}\0", Rule.JSON_MALFORMED, 2),
        (b'["\xc3\xa9", "\xf0\x9f\x98\x80\\udc00"]', Rule.JSON_LONE_SURROGATE, 12),
        (b'"\\ud83d\\u0041"', Rule.JSON_LONE_SURROGATE, 1),
        (b'{"a" "\xff"}', Rule.JSON_MALFORMED, 5),
        (b'{"a":"\\ud800 \xff"}', Rule.JSON_LONE_SURROGATE, 6),
        (b'{"a":"\xed\xa0\x80"}', Rule.JSON_INVALID_UTF8, 6),
        (b"{" + b",".join(b'"%x":0' % number for number in range(50_001)) + b"}", Rule.JSON_KEYS, None),
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


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_is_recognised_by_its_first_two_bytes(codec: str) -> None:
    read = read_json('{"kind":"a"}'.encode(codec))
    assert isinstance(read, Violation)
    assert (read.rule, read.hint) == (Rule.JSON_MALFORMED, codec.replace("16-", "16"))


@pytest.mark.parametrize("text", ["[" * 500_000, ":" * 500_000, '\\"[{:' * 100_000], ids=["[", ":", "mixed"])
def test_what_stands_in_a_string_is_text_and_no_structure(text: str) -> None:
    body = orjson.dumps({"body": text})
    assert read_json(body) == Document({"body": text})


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


_texts = st.text(alphabet='ab"\\:{}\n', max_size=4)
_members = st.lists(st.tuples(_texts, st.none() | st.integers(-9, 10**18) | _texts), max_size=5)


def _object(members: list[tuple[str, object]]) -> bytes:
    return b"{%b}" % b",".join(orjson.dumps(name) + b":" + orjson.dumps(value) for name, value in members)


@given(_members, _members, st.integers(0, 5))
def test_a_small_object_is_read_if_and_only_if_each_key_comes_once(
    outer: list[tuple[str, object]], inner: list[tuple[str, object]], place: int
) -> None:
    written = [b"%b:%b" % (orjson.dumps(name), orjson.dumps(value)) for name, value in outer]
    written.insert(place, b'"inner":' + _object(inner))
    body = b"{%b}" % b",".join(written)
    is_unique = all(len(dict(members)) == len(members) for members in (outer, inner))
    assert isinstance(read_json(body), Document) == is_unique


class _Refused(Exception):
    """The standard library's reader, made strict, says no."""


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) != len(pairs):
        raise _Refused
    return dict(pairs)


def _whole(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER or not -(2**63) <= int(digits) < 2**64:
        raise _Refused
    return int(digits)


def _double(number: str) -> float:
    if len(number) > LONGEST_NUMBER or not math.isfinite(float(number)):
        raise _Refused
    return float(number)


def _no_constant(_: str) -> None:
    raise _Refused


def _depth(value: object) -> int:
    match value:
        case dict():
            return 1 + max(map(_depth, value.values()), default=0)
        case list():
            return 1 + max(map(_depth, value), default=0)
        case _:
            return 0


def _by_the_standard_library(body: bytes, max_depth: int) -> object:
    """Read `body` with another parser under the same rules; raises for what it refuses."""
    text = body.decode("utf-8")
    value = json.loads(
        text, object_pairs_hook=_each_once, parse_int=_whole, parse_float=_double, parse_constant=_no_constant
    )
    json.dumps(value, ensure_ascii=False).encode()  # fails for half of a surrogate pair
    if _depth(value) > max_depth:
        raise _Refused
    return value


_WORDS = rb"""" \ , : { } [ ] ' / - 0 1 . e9 E+999 -0 0.1e-400 true null NaN Infinity [[[[[ ]]]]] "a":1 ,"a":2
    ,"\u0061":2 \ud800 \udc00 \u0000 99999999999999999999""".split()
_BYTES = [b" ", b"\n", b"\0", b"\xff", b"\xc3", b"\xa9", codecs.BOM_UTF8, b"9" * 130]
_WOUNDS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 3), st.sampled_from(_WORDS + _BYTES)), max_size=4)


@settings(max_examples=1500)
@given(value=_values, escaped=st.booleans(), wounds=_WOUNDS)
def test_another_parser_under_the_same_rules_has_the_same_verdict(
    *, value: object, escaped: bool, wounds: list[tuple[int, int, bytes]]
) -> None:
    body = json.dumps(value, ensure_ascii=escaped).encode()
    for place, length, shard in wounds:
        at = place % (len(body) + 1)
        body = body[:at] + shard + body[at + length :]
    for max_depth in (3, 128):
        read = read_json(body, max_depth=max_depth)
        try:
            expected = _by_the_standard_library(body, max_depth)
        except (ValueError, RecursionError, _Refused):
            assert isinstance(read, Violation), read
            assert read.offset is None or 0 <= read.offset <= len(body)
        else:
            assert read == Document(expected)


@given(st.binary(max_size=300))
def test_no_bytes_ever_raise(body: bytes) -> None:
    assert isinstance(read_json(body), Document | Violation)


def test_a_quoted_name_is_short_and_shows_no_controls() -> None:
    shown = quoted("\x1b[31m" + "x" * 1000)
    assert len(shown) == LONGEST_QUOTE + 2
    assert shown.isprintable()
