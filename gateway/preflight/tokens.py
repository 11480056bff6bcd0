"""How many tokens a text has, at a bounded cost whatever the text is.

Owns the cutting: a text is counted in chunks, cut where no pattern of the vocabularies can match or look across, so
that the sum is what tiktoken gives for the whole. Never gives tiktoken more than one chunk: a run of a million blanks
makes it panic, and the whole of a hostile 4 MiB costs seven seconds.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.admission import TokenCount
from gateway.preflight.vocabulary import Vocabulary

CHUNK_CHARACTERS = 16_384
"""A power of two; each chunk costs at most about 4 ms."""

SEARCH_CHARACTERS = 2_048
MARGIN = 0.005
"""Relative error allowed for once a text was cut where its vocabulary may join; at most 0.03 % was measured."""

_BYTES_PER_TOKEN = 4
"""English; only for the figure shown for texts that need no counting."""

# The last position (greedy `.*`) that lies between ... These hold for o200k_base and cl100k_base.
_SAFE_CUT = re.compile(
    r"""(?s:.*)(?:
        (?<=\S)(?=[ \t])                        # a non-space | space or tab: no piece has a blank after a non-space
      | (?<=\n)(?=[^\s/])                       # a newline | non-space: o200k's punctuation may swallow "\n/"
      | (?<=[0-9A-Za-z])(?=[!-&(-/:-@\[-`{-~])  # letter or digit | punctuation, save the apostrophe of "isn't"
      | (?<=[0-9A-Za-z])(?=[\r\n])
      | (?<=[0-9])(?=[A-Za-z])
      | (?<=[A-Za-z])(?=[0-9])
        # kana, Han or Hangul | one of their punctuation marks
      | (?<=[\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3])(?=[\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f])
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class OutOfTime:
    """The deadline passed before the checks were done: says nothing about the input."""


def count(
    texts: Sequence[str],
    vocabulary: Vocabulary,
    *,
    cap: int,
    stop: int | None = None,
    deadline: float | None = None,
) -> TokenCount | OutOfTime:
    """Count the tokens of all `texts` together.

    Not counted at all when the UTF-8 bytes alone prove that `cap` is kept: a token has at least one byte. Stops as
    soon as the count is over `stop` for certain, which is `cap` unless more is to be known of what is over it.
    `deadline` is on the monotonic clock.
    """
    stop = cap if stop is None else stop
    size = sum(map(utf8_size, texts))
    if size <= cap:
        return TokenCount(tokens=-(-size // _BYTES_PER_TOKEN), at_least=min(1, size), at_most=size)
    total = 0
    exact = True
    for text in texts:
        for chunk, forced in _chunks(text):
            if deadline is not None and time.monotonic() > deadline:
                return (
                    OutOfTime() if (least := _at_least(total, exact=exact)) <= cap else _unfinished(total, least, size)
                )
            total += len(vocabulary.encoding.encode(chunk, disallowed_special=()))
            exact = exact and not forced
            if (least := _at_least(total, exact=exact)) > stop:
                return _unfinished(total, least, size)
    at_most = total if exact else min(size, int(total * (1 + MARGIN)) + 1)
    return TokenCount(tokens=total, at_least=_at_least(total, exact=exact), at_most=at_most)


def _unfinished(total: int, least: int, size: int) -> TokenCount:
    return TokenCount(tokens=total, at_least=least, at_most=max(size, total))


def utf8_size(text: str) -> int:
    """Bytes of `text` in UTF-8, which is what a vocabulary counts in, whatever charset the text came in."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _at_least(total: int, *, exact: bool) -> int:
    return total if exact else int(total * (1 - MARGIN))


def _chunks(text: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, each with whether its end was forced where the vocabulary may have joined."""
    start = 0
    while len(text) - start > CHUNK_CHARACTERS:
        end = start + CHUNK_CHARACTERS
        # One character more than the chunk is shown, for what stands to the right of the cut.
        found = _SAFE_CUT.match(text, end - SEARCH_CHARACTERS, end + 1)
        cut = end if found is None else found.end()
        yield text[start:cut], found is None
        start = cut
    if start < len(text):
        yield text[start:], False
