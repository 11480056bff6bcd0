"""Whatever it holds, a document is written as every store can hold it; what needs no change is written as it is."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.station.storable import MAX_DEPTH, document, parsed

_words = st.text() | st.text(alphabet="a\x00\ud800\\u0{[é")
_leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _words
    | st.binary(max_size=4)
)
_values = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_words, inner, max_size=4), max_leaves=20
)


def _expected(value: object) -> object:
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\x00", "\ufffd")
        case bool() | None | float():
            return value
        case int():
            return value if -(2**53) < value < 2**53 else str(value)
        case bytes():
            return repr(value)
        case dict():
            return {_expected(name): _expected(inner) for name, inner in value.items()}
        case list():
            return [_expected(inner) for inner in value]
        case _:
            raise AssertionError(value)


@given(value=_values)
def test_a_document_says_what_it_was_given_without_what_no_store_can_hold(value: object) -> None:
    text = document(value)
    text.encode()
    assert "\x00" not in text
    assert "\\u0000" not in text.replace("\\\\", "")
    if not _has_surrogates(value):
        assert parsed(text) == _expected(value)


def _has_surrogates(value: object) -> bool:
    match value:
        case str():
            return any("\ud800" <= character <= "\udfff" for character in value)
        case dict():
            return any(map(_has_surrogates, value)) or any(map(_has_surrogates, value.values()))
        case list():
            return any(map(_has_surrogates, value))
        case _:
            return False


@pytest.mark.parametrize("extra", [-1, 0, 1, 100], ids=["below", "at", "above", "far_above"])
def test_what_nests_deeper_than_pages_can_follow_is_cut(extra: int) -> None:
    value: object = "inside"
    for _ in range(MAX_DEPTH + extra):
        value = [value]
    text = document(value)
    assert text.count("[") <= MAX_DEPTH + 1
    assert ("inside" in text) is (extra <= 0)
    orjson.loads(text)
