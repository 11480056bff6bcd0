"""An API key's text: `lz_<id>_<secret>`, made by us and never stored.

Owns its form and its digest. The secret has 256 bits of the system's randomness, so a plain SHA-256 is as hard to turn
round as a slow hash of a password, and a request costs microseconds (docs/decisions/0013). Nobody can choose one.
"""

import hashlib
import re
import secrets
import string
import zlib
from dataclasses import dataclass, field
from typing import Final

_LOWER: Final = string.digits + string.ascii_lowercase
_LETTERS: Final = string.digits + string.ascii_letters
_ID: Final = 12
_SECRET: Final = 43
"""Letters of 62 that hold 256 bits."""
_CHECK: Final = 6
"""Letters of 62 that hold the CRC-32, by which a scanner of leaked secrets knows a real key from a look-alike."""
KEY_ID_PATTERN: Final = re.compile(rf"[0-9a-z]{{{_ID}}}")
_KEY: Final = re.compile(rf"lz_([0-9a-z]{{{_ID}}})_([0-9A-Za-z]{{{_SECRET}}})([0-9A-Za-z]{{{_CHECK}}})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as a client presents it."""

    id: str
    """What the key is called by; no secret."""
    text: str = field(repr=False)

    @property
    def digest(self) -> str:
        """SHA-256 of the whole text in hexadecimal: what the key file has."""
        return hashlib.sha256(self.text.encode("ascii")).hexdigest()


def new() -> ApiKey:
    """Make a key that nobody had before."""
    name = "".join(secrets.choice(_LOWER) for _ in range(_ID))
    secret = "".join(secrets.choice(_LETTERS) for _ in range(_SECRET))
    return ApiKey(id=name, text=f"lz_{name}_{secret}{_check(name, secret)}")


def read(text: str) -> ApiKey | None:
    """Read a key; None for what can be none."""
    match = _KEY.fullmatch(text)
    if match is None or match[3] != _check(match[1], match[2]):
        return None
    return ApiKey(id=match[1], text=text)


def _check(name: str, secret: str) -> str:
    value = zlib.crc32(f"{name}_{secret}".encode("ascii"))
    letters = ""
    for _ in range(_CHECK):
        value, digit = divmod(value, len(_LETTERS))
        letters = _LETTERS[digit] + letters
    return letters
