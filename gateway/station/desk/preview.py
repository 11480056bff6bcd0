"""The beginning of a body as text that is safe to look at; pure.

Owns the decoding for eyes only: the stored bytes are never touched, and nothing here is sent anywhere again.
"""

import codecs
import unicodedata
from dataclasses import dataclass
from typing import Final

_FALLBACK: Final = "utf-8"
_CONTROL_PICTURES: Final = 0x2400
_FIRST_PRINTABLE: Final = 0x20
_DELETE: Final = 0x7F


class Verbatim(str):
    """Text for a field that is sent back: escaped as any other, but what it holds has to come back the same."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What to show of a body."""

    text: str
    charset: str
    cut: bool
    """There is more than this."""


def preview(head: bytes, *, size: int, charset: str | None) -> Preview:
    """Decode the beginning of a body of `size` bytes, without half a character at its end."""
    named, complete = charset or _FALLBACK, len(head) >= size
    try:
        text = _decoded(head, named, final=complete)
    except (LookupError, ValueError):
        # The name travelled in a header, where anybody may have written anything.
        named, text = _FALLBACK, _decoded(head, _FALLBACK, final=complete)
    return Preview(text=visible(text), charset=named, cut=not complete)


def visible(text: str) -> str:
    """Return text in which nothing acts on a terminal, hides, or turns text around; lines and tabs stay."""
    return text if text.isascii() and text.isprintable() else "".join(map(_visible, text))


def _decoded(head: bytes, charset: str, *, final: bool) -> str:
    # Only `bytes.decode` tells charsets from codecs such as hex; only the incremental decoder keeps half a character.
    b"a".decode(charset, "replace")
    return codecs.getincrementaldecoder(charset)("replace").decode(head, final=final)


def _visible(character: str) -> str:
    """Show one character, as a picture or an escape where it would act or hide."""
    point = ord(character)
    if character in "\n\t":
        return character
    if point < _FIRST_PRINTABLE:
        return chr(_CONTROL_PICTURES + point)
    if point == _DELETE:
        return "\u2421"
    if unicodedata.category(character) in {"Cc", "Cf", "Cs"}:
        return f"\\u{point:04x}"
    return character
