"""A count is tiktoken's own, or says how far off it may be; and costs little whatever the text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.admission import TokenCount
from gateway.preflight import tokens
from gateway.preflight.tokens import OutOfTime, count, utf8_size
from gateway.preflight.vocabulary import PACKAGED, Vocabulary
from tests.unit.preflight.corpora import HOSTILE, ORDINARY


@pytest.fixture(scope="module", params=PACKAGED)
def each_vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    return Vocabulary.load(request.param)


def _whole(text: str, vocabulary: Vocabulary) -> int:
    return len(vocabulary.encoding.encode(text, disallowed_special=()))


def _counted(text: str, vocabulary: Vocabulary, *, cap: int) -> TokenCount:
    counted = count([text], vocabulary, cap=cap)
    assert isinstance(counted, TokenCount)
    return counted


@pytest.mark.parametrize("name", ORDINARY)
def test_counting_in_chunks_gives_what_tiktoken_gives_for_the_whole(name: str, each_vocabulary: Vocabulary) -> None:
    whole = _whole(ORDINARY[name], each_vocabulary)
    counted = _counted(ORDINARY[name], each_vocabulary, cap=whole)
    assert (counted.tokens, counted.exact) == (whole, True)


@pytest.mark.parametrize("name", HOSTILE)
def test_the_true_count_lies_within_the_bounds_of_an_estimate(name: str, each_vocabulary: Vocabulary) -> None:
    whole = _whole(HOSTILE[name], each_vocabulary)
    counted = _counted(HOSTILE[name], each_vocabulary, cap=whole + 500)
    assert not counted.exact
    assert counted.at_least <= whole <= counted.at_most


_PIECES = st.sampled_from(
    [
        *(
            "a",
            "Z",
            "7",
            " ",
            "  ",
            "\t",
            "\n",
            "\r\n",
            "/",
            "'",
            "'s",
            "'LL",
            ".",
            "(",
            "é",
            "e\u0301",
            "中",
            "，",
            "。",
        ),
        *(
            "か",
            "ア",
            "한",
            "👍🏽",
            "\u3000",
            "\x85",
            "\x1f",
            "_",
            "->",
            "\u0410",
            "12345",
            "word",
            "Word",
            "WORD",
            "\u2028",
        ),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_PIECES, max_size=80), st.data())
def test_a_safe_cut_never_changes_the_count(vocabulary: Vocabulary, pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    end = data.draw(st.integers(0, max(0, len(text) - 1)))
    found = tokens._SAFE_CUT.match(text, 0, end + 1)  # noqa: SLF001 - the claim under test is about exactly this
    if found is not None:
        left, right = text[: found.end()], text[found.end() :]
        assert _whole(left, vocabulary) + _whole(right, vocabulary) == _whole(text, vocabulary)


@settings(max_examples=40, deadline=None)
@given(st.lists(_PIECES, min_size=1, max_size=12), st.integers(20_000, 40_000))
def test_an_exact_count_of_any_repeated_pattern_is_exact(
    vocabulary: Vocabulary, pieces: list[str], length: int
) -> None:
    pattern = "".join(pieces)
    text = (pattern * (length // len(pattern) + 1))[:length]
    whole = _whole(text, vocabulary)
    if whole >= utf8_size(text):
        return
    counted = _counted(text, vocabulary, cap=whole + 400)
    assert counted.at_least <= whole <= counted.at_most
    assert not counted.exact or counted.tokens == whole


_RUNS = st.sampled_from(
    [
        "a",
        "A",
        "7",
        " ",
        "\n",
        "\t",
        "'",
        "/",
        ".",
        "é",
        "中",
        "か",
        "한",
        "👍🏽",
        "e\u0301",
        "\u200b",
        "\x01",
        "ab1",
        "=-",
    ]
)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_long_runs_among_ordinary_text_are_counted_exactly_or_within_the_bounds(
    vocabulary: Vocabulary, data: st.DataObject
) -> None:
    text = ""
    for _ in range(data.draw(st.integers(1, 3))):
        text += data.draw(st.sampled_from([*ORDINARY.values()]))[: data.draw(st.integers(0, 9_000))]
        run = data.draw(_RUNS)
        text += run * (data.draw(st.integers(1, 40_000)) // len(run))
    whole = _whole(text, vocabulary)
    counted = _counted(text, vocabulary, cap=min(whole, utf8_size(text) - 1))
    assert counted.at_least <= whole <= counted.at_most
    assert not counted.exact or counted.tokens == whole


@pytest.mark.parametrize(
    "text", ["a" * 500_000, "Ab" * 250_000, "\n" * 500_000, "=" * 500_000], ids=lambda text: text[:2]
)
def test_half_a_million_letters_without_a_place_to_cut_are_within_the_bounds(
    text: str, each_vocabulary: Vocabulary
) -> None:
    whole = _whole(text, each_vocabulary)
    counted = _counted(text, each_vocabulary, cap=min(whole + 3_000, 499_999))
    assert counted.at_least <= whole <= counted.at_most
    assert counted.at_most - counted.at_least <= 0.011 * whole + 2


def test_a_text_with_no_more_bytes_than_the_cap_is_not_counted() -> None:
    class NeverAsked:
        encoding = None

    counted = count(["é" * 50], NeverAsked(), cap=100)  # type: ignore[arg-type]
    assert counted == TokenCount(tokens=25, at_least=1, at_most=100)


def test_bytes_are_those_of_utf8_whatever_charset_the_text_came_in(vocabulary: Vocabulary) -> None:
    text = "Ї" * 60_000  # 60,000 bytes of windows-1251, 120,000 of UTF-8
    counted = _counted(text, vocabulary, cap=100_000)
    assert counted.tokens == _whole(text, vocabulary)


def test_counting_stops_soon_after_the_cap(vocabulary: Vocabulary) -> None:
    counted = _counted(ORDINARY["JSON"], vocabulary, cap=2_000)
    assert 2_000 < counted.at_least < 2_000 + tokens.CHUNK_CHARACTERS
    assert not counted.exact


def test_several_texts_are_counted_together(vocabulary: Vocabulary) -> None:
    texts = [ORDINARY["English"], ORDINARY["Chinese"]]
    whole = sum(_whole(text, vocabulary) for text in texts)
    counted = count(texts, vocabulary, cap=whole)
    assert counted == TokenCount(tokens=whole, at_least=whole, at_most=whole)


def test_special_tokens_in_a_text_are_counted_as_text(vocabulary: Vocabulary) -> None:
    text = "<|endoftext|> " * 2_000
    counted = _counted(text, vocabulary, cap=20_000)
    assert counted.tokens == _whole(text, vocabulary) > 2_000


def test_a_passed_deadline_ends_the_count_without_a_verdict(vocabulary: Vocabulary) -> None:
    assert count([ORDINARY["a log"]], vocabulary, cap=10, deadline=time.monotonic() - 1) == OutOfTime()


def test_a_run_of_a_million_blanks_does_no_harm(vocabulary: Vocabulary) -> None:
    counted = _counted(" " * 1_000_000, vocabulary, cap=128_000)
    assert counted.at_most < 128_000
