"""Cutting text to a size in bytes, always at a character and always visibly.

Never yields invalid UTF-8: a preview cut inside an emoji once made a provider refuse the same item every hour.
"""

from typing import Final

TRUNCATION_MARK: Final = "…[cut]"
_MARK_BYTES: Final = len(TRUNCATION_MARK.encode())


def printable(text: str) -> str:
    """Replace lone surrogates and NUL, which neither UTF-8 nor the store can hold, by U+FFFD."""
    if text.isascii():
        return text if "\x00" not in text else text.replace("\x00", "\ufffd")
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").replace("\x00", "\ufffd")


def clip(text: str, limit: int) -> str:
    """Return `text` if its UTF-8 form fits `limit` bytes, else its beginning and a visible mark."""
    if len(text) <= limit and text.isascii() and "\x00" not in text:
        return text
    encoded = printable(text).encode()
    if len(encoded) <= limit:
        return encoded.decode()
    kept = encoded[: max(0, limit - _MARK_BYTES)]
    return kept.decode("utf-8", "ignore") + TRUNCATION_MARK


def clip_tail(text: str, limit: int) -> str:
    """Like `clip`, but keep the end: last words matter most in a log."""
    encoded = printable(text).encode()
    if len(encoded) <= limit:
        return encoded.decode()
    kept = encoded[len(encoded) - max(0, limit - _MARK_BYTES) :] if limit > _MARK_BYTES else b""
    return TRUNCATION_MARK + kept.decode("utf-8", "ignore")
