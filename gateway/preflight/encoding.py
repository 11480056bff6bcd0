"""From bytes to text: which charset, how we know, and when to refuse instead of guessing.

Owns the order of the rules: byte order mark, declaration, ASCII, UTF-8, and then only hints. Never looks a codec up by
a name from outside, never transcodes on a guess, never raises for any input.
"""

from __future__ import annotations

import codecs
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum, unique

from gateway.admission import Rule
from gateway.preflight import charsets, guess
from gateway.preflight.characters import CONTROL_BYTES, blemishes, warnings

MAX_CONTROL_BYTES_SHARE = 0.005
"""Above this share of control bytes, undeclared bytes are no text in any charset we read."""

_BOMS = (
    # UTF-32 before UTF-16: the little-endian marks begin alike.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_NO_BYTE_ORDER = {"utf-16": ("utf-16-le", "utf-16-be"), "utf-32": ("utf-32-le", "utf-32-be")}


@unique
class CharsetSource(StrEnum):
    """How the charset of a text is known."""

    BOM = "bom"
    DECLARED = "declared"
    ASCII = "ascii"
    UTF8 = "utf-8"
    DETECTED = "detected"
    FORMAT = "format"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The text of some bytes. `charset` is a codec name of Python; the text has no byte order mark."""

    text: str
    charset: str
    source: CharsetSource
    warnings: tuple[str, ...] = ()
    waived: tuple[Undecodable, ...] = ()
    """Why it would not have been read, had nothing been waived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecodable:
    """Why some bytes are not read as text. `offset` counts bytes from 0; `hint` names a charset to declare."""

    rule: Rule
    detail: str
    offset: int | None = None
    hint: str | None = None


def read_text(
    body: bytes, declared: str | None = None, *, accept_detected: bool = False, waived: Collection[Rule] = ()
) -> Decoded | Undecodable:
    """Decode `body`, whose sender declared the charset `declared` (None: nothing was said).

    `accept_detected` reads undeclared legacy text by a guess that decodes the whole body and says so in the source.
    What breaks only rules in `waived` (those about characters, and the one about guesses) is read, and says which.
    Bounded: about 35 ms for the worst 512 KiB.
    """
    if not body:
        return Undecodable(rule=Rule.EMPTY, detail="there is no text")
    bom = next(((mark, codec) for mark, codec in _BOMS if body.startswith(mark)), None)
    if bom is not None:
        read = _by_mark(body, *bom, declared)
    elif declared is not None:
        read = _as_declared(body, declared)
    else:
        read = _undeclared(body, accept_detected=accept_detected, waived=waived)
    match read:
        case Decoded():
            checked = _checked(read, waived)
            return checked if bom is None else _after_mark(checked, len(bom[0]))
        case Undecodable():
            return read


def _by_mark(body: bytes, mark: bytes, codec: str, declared: str | None) -> Decoded | Undecodable:
    try:
        text = body[len(mark) :].decode(codec)
    except UnicodeDecodeError as error:
        offset = error.start + len(mark)
        detail = f"the byte order mark says {codec}, but the bytes at {offset} are not"
        return Undecodable(rule=Rule.UNDECODABLE, detail=detail, offset=offset)
    if not text:
        return Undecodable(rule=Rule.EMPTY, detail="there is nothing but a byte order mark")
    overrides = declared is not None and codec not in _meant_by(declared)
    return Decoded(text=text, charset=codec, source=CharsetSource.BOM, warnings=("bom_overrides",) if overrides else ())


def _meant_by(declared: str) -> tuple[str | None, ...]:
    label = declared.strip(" \t\"'").lower()
    return _NO_BYTE_ORDER.get(label) or (charsets.codec_for(declared),)


def _as_declared(body: bytes, declared: str) -> Decoded | Undecodable:
    codec = charsets.codec_for(declared)
    if codec is None:
        detail = f"this charset is not supported; supported are {', '.join(charsets.SUPPORTED)}"
        return Undecodable(rule=Rule.UNSUPPORTED_CHARSET, detail=detail)
    try:
        text = body.decode(codec)
    except UnicodeDecodeError as error:
        detail = f"the bytes at {error.start} are not {codec}, which the declared charset means"
        return Undecodable(rule=Rule.CHARSET_MISMATCH, detail=detail, offset=error.start)
    # Most single-byte charsets read UTF-8 without complaint, as garbage a person would notice at once.
    doubtful = codec in charsets.SINGLE_BYTE and not body.isascii() and _as_utf8(body) is not None
    return Decoded(
        text=text,
        charset=codec,
        source=CharsetSource.DECLARED,
        warnings=("looks_like_utf8",) if doubtful else (),
    )


def _as_utf8(body: bytes) -> str | None:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _undeclared(body: bytes, *, accept_detected: bool, waived: Collection[Rule]) -> Decoded | Undecodable:
    text = _as_utf8(body)
    nuls = body.count(0)
    controls = len(body) - len(body.translate(None, CONTROL_BYTES))
    if nuls:
        rule = Rule.NUL if text is not None else Rule.BINARY
        return Undecodable(rule=rule, detail="there are NUL bytes", offset=body.index(0), hint=_wide(body, nuls))
    passed_over: tuple[Undecodable, ...] = ()
    if controls > MAX_CONTROL_BYTES_SHARE * len(body):
        detail = f"{controls} of {len(body)} bytes are control bytes: this is not text"
        if text is None or Rule.CONTROL_CHARACTERS not in waived:
            return Undecodable(rule=Rule.BINARY, detail=detail)
        passed_over = (Undecodable(rule=Rule.CONTROL_CHARACTERS, detail=detail),)
    if text is None:
        return _neither_ascii_nor_utf8(body, accept_detected=accept_detected, waived=waived)
    if body.isascii():
        return Decoded(text=text, charset="us-ascii", source=CharsetSource.ASCII, waived=passed_over)
    return Decoded(text=text, charset="utf-8", source=CharsetSource.UTF8, waived=passed_over)


def _wide(body: bytes, nuls: int) -> str | None:
    """The UTF-16 that NULs at every second byte speak for: English in UTF-16LE has its NULs at odd offsets."""
    odd = body[1::2].count(0)
    if nuls * 10 < len(body):
        return None
    if odd >= 0.9 * nuls:
        return "utf-16le"
    return "utf-16be" if odd <= 0.1 * nuls else None


def _neither_ascii_nor_utf8(body: bytes, *, accept_detected: bool, waived: Collection[Rule]) -> Decoded | Undecodable:
    damage = guess.damaged_utf8(body)
    if damage is not None:
        detail = f"this is UTF-8 but for {damage.bad} bad byte sequences, the first at {damage.offset}"
        return Undecodable(rule=Rule.INVALID_UTF8, detail=detail, offset=damage.offset, hint="utf-8")
    offset = guess.first_non_ascii(body)
    found = guess.charset(body)
    if found is None:
        detail = "the charset is not declared, and the bytes are neither ASCII nor UTF-8"
        return Undecodable(rule=Rule.UNDECODABLE, detail=detail, offset=offset)
    detail = f"the charset is not declared; it looks like {found}: declare it in the content type"
    refusal = Undecodable(rule=Rule.CHARSET_UNDECLARED, detail=detail, offset=offset, hint=found)
    if not accept_detected and refusal.rule not in waived:
        return refusal
    passed_over = () if accept_detected else (refusal,)
    return Decoded(text=body.decode(found), charset=found, source=CharsetSource.DETECTED, waived=passed_over)


def _after_mark(read: Decoded | Undecodable, mark: int) -> Decoded | Undecodable:
    """The same, with the offset counted from the beginning of the body and not of its text."""
    match read:
        case Undecodable():
            return _moved(read, mark)
        case Decoded():
            return replace(read, waived=tuple(_moved(refusal, mark) for refusal in read.waived))


def _moved(refusal: Undecodable, by: int) -> Undecodable:
    return refusal if refusal.offset is None else replace(refusal, offset=refusal.offset + by)


def _checked(read: Decoded, waived: Collection[Rule]) -> Decoded | Undecodable:
    passed_over = list(read.waived)
    for found in blemishes(read.text):
        offset = len(read.text[: found.position].encode(read.charset, "replace"))
        refusal = Undecodable(rule=found.rule, detail=found.detail, offset=offset)
        if found.rule not in waived:
            return refusal
        if all(found.rule is not other.rule for other in passed_over):
            passed_over.append(refusal)
    return replace(read, warnings=read.warnings + warnings(read.text), waived=tuple(passed_over))
