"""Where a client wants to hear of its tickets, and how it can tell that it is us: an address and a secret.

Owns both as values, and how they are written in the key file (Standard Webhooks). Pure; sends nothing.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import urlsplit

_SECRET: Final = "whsec_"
_SECRET_BYTES: Final = range(24, 65)
_MAX_URL: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """One client's address, and one secret that it knows."""

    url: str
    secret: str = field(repr=False)
    """As the client keeps it: `whsec_` and base64."""

    @classmethod
    def new(cls, url: str) -> Self:
        """Return one with a fresh secret; raises ValueError for what is no address."""
        return cls.read({"url": url, "secret": _SECRET + base64.b64encode(secrets.token_bytes(32)).decode()})

    @classmethod
    def read(cls, value: object) -> Self:
        """Read what the key file has; raises ValueError, which never quotes the secret."""
        if not isinstance(value, dict) or set(value) != {"url", "secret"}:
            raise ValueError("write an object of url and secret")
        url, secret = value["url"], value["secret"]
        if not isinstance(url, str) or not _is_address(url):
            raise ValueError("url: write https://host/path, without a user and a fragment")
        if not isinstance(secret, str) or len(_bytes_of(secret)) not in _SECRET_BYTES:
            raise ValueError("secret: write whsec_ and 24 to 64 bytes in base64")
        return cls(url=url, secret=secret)

    def written(self) -> dict[str, str]:
        """Return what the key file has."""
        return {"url": self.url, "secret": self.secret}


def signature(known: Iterable[Callback], event_id: str, timestamp: int, body: bytes) -> str:
    """Return the `webhook-signature` of a message: one for each secret, so that one can take the place of another."""
    content = f"{event_id}.{timestamp}.".encode() + body
    signed = (hmac.digest(_bytes_of(each.secret), content, hashlib.sha256) for each in known)
    return " ".join(f"v1,{base64.b64encode(each).decode()}" for each in signed)


def _bytes_of(secret: str) -> bytes:
    if not secret.startswith(_SECRET):
        return b""
    try:
        return base64.b64decode(secret.removeprefix(_SECRET), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.username is None and parts.password is None and parts.port != 0
    except ValueError:
        return False
    printable = url.isascii() and url.isprintable() and " " not in url and len(url) <= _MAX_URL
    return printable and parts.scheme in {"https", "http"} and named and not parts.fragment
