"""The name of a file in every form in which clients write it into the headers of a part (D45).

Owns those forms: raw UTF-8 and Latin-1, percent escapes of browsers, `filename*` (RFC 8187), encoded words (RFC 2047).
What comes out is text and not yet fit to show; nothing of it is ever a path.
"""

from __future__ import annotations

import base64
import binascii
import quopri
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

from gateway.preflight.charsets import codec_for

_WORD: Final = re.compile(r"=\?([!-)+-<>@-~]{1,40})(?:\*[!-<>@-~]{0,40})?\?([bBqQ])\?([!->@-~]*)\?=")
_WORDS: Final = re.compile(rf"(?:{_WORD.pattern}[ \t]*)+")


def header_text(raw: bytes) -> str:
    """Read a header: raw UTF-8 as browsers send it, else Latin-1 as old clients do; never a lone surrogate."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def file_name(parameters: Mapping[str, str]) -> str | None:
    """Return what a content disposition calls its file, None where it is none.

    `filename*` counts if it can be read, else `filename`: in encoded words, or with the three escapes browsers make.
    """
    charset, quote, value = parameters.get("filename*", "").partition("'")
    _language, second_quote, value = value.partition("'")
    codec = codec_for(charset) if quote and second_quote else None
    if codec is not None:
        return unquote_to_bytes(value).decode(codec, "replace")
    plain = parameters.get("filename")
    if plain is None:
        return None
    words = _words(plain)
    return plain.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n") if words is None else words


def _words(text: str) -> str | None:
    """Read a name that is nothing but encoded words; None for all others, and for words that cannot be read."""
    if not text.startswith("=?") or _WORDS.fullmatch(text) is None:
        return None
    found = []
    for charset, encoding, content in _WORD.findall(text):
        codec = codec_for(charset)
        if codec is None:
            return None
        try:
            raw = base64.b64decode(content, validate=True) if encoding in "bB" else _unquoted(content)
        except (binascii.Error, ValueError):
            return None
        found.append(raw.decode(codec, "replace"))
    return "".join(found)


def _unquoted(content: str) -> bytes:
    return quopri.decodestring(content.encode("ascii"), header=True)
