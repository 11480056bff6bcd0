"""What undeclared legacy bytes most likely are: a hint for a person, never a decision.

Owns the sampling and the trust in charset-normalizer, which is right on a sample of the lines around non-ASCII bytes
(94 %) where it is wrong on a whole log (18 %), and whose own confidence figures tell nothing. Bounded by the sample.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SAMPLE_BYTES = 8_192
MIN_NON_ASCII_BYTES = 128
MIN_DISTINCT_CHARACTERS = 8
MAX_CANDIDATES = 4

_CANDIDATES = [
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "cp874"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949", "koi8_r", "koi8_u", "cp866", "iso8859_2", "iso8859_5"),
]
_ALL_ASCII = bytes(range(0x80))
_NON_ASCII = re.compile(rb"[\x80-\xff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """UTF-8 with bad places: how many, and the byte offset of the first."""

    bad: int
    offset: int


def damaged_utf8(body: bytes) -> Damage | None:
    """The damage, if `body` is UTF-8 that broke: at least as many good non-ASCII characters as bad sequences."""
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        offset = error.start
    else:
        return None
    text = body.decode("utf-8", "replace")
    bad = text.count("\ufffd") - body.count(b"\xef\xbf\xbd")
    good = len(text) - len(text.encode("ascii", "ignore")) - bad
    return Damage(bad=bad, offset=offset) if good >= max(1, bad) else None


def first_non_ascii(body: bytes) -> int | None:
    """Offset of the first byte above 0x7F."""
    found = _NON_ASCII.search(body)
    return found.start() if found else None


def charset(body: bytes) -> str | None:
    """The charset `body` most likely has, if there is enough to go by and it decodes all of it strictly."""
    sample = _sample(body)
    if len(sample.translate(None, _ALL_ASCII)) < MIN_NON_ASCII_BYTES:
        return None
    from charset_normalizer import from_bytes  # noqa: PLC0415 - 30 ms of a start, for what few bodies need

    candidates = from_bytes(sample, cp_isolation=_CANDIDATES, preemptive_behaviour=False, enable_fallback=False)
    for candidate in list(candidates)[:MAX_CANDIDATES]:
        try:
            body.decode(candidate.encoding)
        except UnicodeDecodeError:
            continue
        shown = set(sample.decode(candidate.encoding, "ignore"))
        if sum(character > "\x7f" for character in shown) >= MIN_DISTINCT_CHARACTERS:
            return candidate.encoding
    return None


def _sample(body: bytes) -> bytes:
    """Whole lines with non-ASCII bytes, up to 8 KiB; a longer line gives its part around the first such byte."""
    if len(body) <= SAMPLE_BYTES:
        return body
    pieces: list[bytes] = []
    size = position = 0
    while size < SAMPLE_BYTES and (found := _NON_ASCII.search(body, position)) is not None:
        start = max(body.rfind(b"\n", position, found.start()) + 1, position, found.start() - 512)
        newline = body.find(b"\n", found.start())
        end = min(len(body) if newline < 0 else newline + 1, start + SAMPLE_BYTES - size)
        if end <= found.start():
            break
        pieces.append(body[start:end])
        size += end - start
        position = end
    return b"".join(pieces)
