"""What a decoded text must not consist of, and what is worth a warning in it.

Owns the rules about characters, whatever the charset. Never changes the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.admission import Rule

MAX_REPLACEMENT_SHARE, MAX_REPLACEMENTS = 0.01, 10
"""U+FFFD is what is left where somebody decoded wrongly before us: above both, the text is no longer the client's."""

MAX_CONTROL_SHARE, MAX_CONTROLS = 0.05, 32

CONTROL_BYTES = bytes(code for code in (*range(0x20), 0x7F) if code not in b"\t\n\f\r\x1b")
"""ASCII controls that text does not have: all but tab, line feed, form feed, carriage return and escape (colours)."""

_CONTROLS = frozenset(CONTROL_BYTES)
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_C1 = re.compile("[\x80-\x9f]")
_NONCHARACTER = re.compile(
    "[\ufdd0-\ufdef" + "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF)) + "]"
)
_UNUSUAL = re.compile("|".join(pattern.pattern for pattern in (_BIDI, _C1, _NONCHARACTER)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Blemish:
    """A reason to refuse a text: the rule, a sentence, and the position of the first culprit in characters."""

    rule: Rule
    detail: str
    position: int


def blemishes(text: str, *, may_hold_controls: bool = True) -> Iterator[Blemish]:
    """The rules about characters that `text` breaks.

    `may_hold_controls` is False where the bytes that the text was read from have shown that it holds none.
    """
    if may_hold_controls and "\0" in text:
        # PostgreSQL holds U+0000 neither in text nor in jsonb: what we take must fit into every store.
        yield Blemish(rule=Rule.NUL, detail="the text contains U+0000", position=text.index("\0"))
    replaced = text.count("\ufffd")
    if replaced > MAX_REPLACEMENTS and replaced > MAX_REPLACEMENT_SHARE * len(text):
        detail = f"{replaced} of {len(text)} characters are U+FFFD: the text was damaged before it was sent"
        yield Blemish(rule=Rule.LOSSY_TEXT, detail=detail, position=text.index("\ufffd"))
    controls = control_count(text) if may_hold_controls else 0
    if controls > MAX_CONTROLS and controls > MAX_CONTROL_SHARE * len(text):
        position = next(at for at, character in enumerate(text) if ord(character) in _CONTROLS)
        detail = f"{controls} of {len(text)} characters are control characters"
        yield Blemish(rule=Rule.CONTROL_CHARACTERS, detail=detail, position=position)


def control_count(text: str) -> int:
    """How many characters of `text` are ASCII controls that text does not have."""
    raw = text.encode("utf-8", "surrogatepass")  # where no byte of another character is one of theirs
    return len(raw) - len(raw.translate(None, CONTROL_BYTES))


def warnings(text: str) -> tuple[str, ...]:
    """Names of what is unusual in a text, though admitted: `bidi_controls`, `c1_controls`, `noncharacters`."""
    if text.isascii() or _UNUSUAL.search(text) is None:
        return ()
    kinds = (("bidi_controls", _BIDI), ("c1_controls", _C1), ("noncharacters", _NONCHARACTER))
    return tuple(name for name, pattern in kinds if pattern.search(text))
