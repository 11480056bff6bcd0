"""A key file as an operator keeps it, and the keys whose hashes it has."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gateway import api_key, key_ring
from gateway.key_ring import Key
from gateway.quota import Rate


class KeyFile:
    """Keys are added and revoked one by one; each change replaces the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._keys: dict[str, Key] = {}
        self._write()

    def add(self, client: str, *, requests: str | None = None, size: str | None = None, **members: Any) -> str:
        """Make a key and return its text; quotas as they are written in the file."""
        fresh = api_key.new()
        self._keys[fresh.text] = Key(
            id=fresh.id,
            client=client,
            sha256=fresh.digest,
            requests=None if requests is None else Rate.read(requests),
            bytes=None if size is None else Rate.read(size),
            **members,
        )
        self._write()
        return fresh.text

    def revoke(self, text: str) -> None:
        """Take a key out."""
        del self._keys[text]
        self._write()

    @contextlib.contextmanager
    def spoiled(self) -> Iterator[None]:
        """Have a mistake beside the keys that are there, for a while."""
        self._write(beside="{ this is no key")
        yield
        self._write()

    def _write(self, beside: str = "") -> None:
        fresh = self.path.with_suffix(".new")
        fresh.write_text("\n".join([*map(key_ring.line, self._keys.values()), beside]), "utf-8")
        fresh.replace(self.path)


def bearing(key: str) -> dict[str, str]:
    """Return the header that presents a key."""
    return {"Authorization": f"Bearer {key}"}
