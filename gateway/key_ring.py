"""The keys that open the door, as the key file has them, with the secrets of callbacks, which nobody can sign with
otherwise.

Owns what a key allows. Pure: reads text and makes text, in the form of `gateway.key_lines`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gateway.callback import Callback
from gateway.contract.ids import is_kind
from gateway.key_lines import Ring, day, digest, entries, expired, moment, named_by, text, written
from gateway.quota import Rate

ANONYMOUS: Final = "anonymous"
"""Whom a door without keys takes everybody for; no key can be of this client."""
CLIENT_PATTERN: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_MEMBERS: Final = (
    *("id", "client", "sha256", "kinds", "requests", "bytes"),
    *("callback", "metrics", "created", "expires"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One line of the key file."""

    id: str
    client: str
    sha256: str
    kinds: tuple[str, ...] | None = None
    """Kinds of tickets it may submit; None is all."""
    requests: Rate | None = None
    bytes: Rate | None = None
    callback: Callback | None = None
    """Where its client wants to hear of its tickets; in all keys of a client that have one, the same address."""
    metrics: bool = False
    """Whether it may read /metrics of a door beyond loopback."""
    created: datetime | None = None
    expires: datetime | None = None

    def expired(self, now: float) -> bool:
        """Tell whether its time is over at `now`, Unix seconds."""
        return expired(self, now)

    def allows(self, kind: str) -> bool:
        """Tell whether tickets of this kind may be submitted with it."""
        return self.kinds is None or kind in self.kinds


class KeyRing(Ring[Key]):
    """The keys of one reading of the file."""

    def __init__(self, keys: Iterable[Key]) -> None:
        """Raises BadKeyFile when they contradict each other."""
        self.clients: dict[str, Key] = {}
        """A key of each client: its quota is the same in all of them."""
        self.callbacks: dict[str, tuple[Callback, ...]] = {}
        """Of each client that has one: with the secrets of all its keys, so that one can take the place of another."""
        super().__init__(keys)

    def _contradictions(self, keys: Iterable[Key]) -> list[str]:
        problems = []
        for key in keys:
            first = self.clients.setdefault(key.client, key)
            if (first.requests, first.bytes) != (key.requests, key.bytes):
                problems.append(f"key {key.id}: its client {key.client} has another quota in key {first.id}")
            if key.callback is None:
                continue
            known = self.callbacks.get(key.client, ())
            if known and known[0].url != key.callback.url:
                problems.append(f"key {key.id}: its client {key.client} has another callback in another key")
            self.callbacks[key.client] = (*known, key.callback)
        return problems


def read(content: str) -> KeyRing:
    """Read a key file; blank lines and lines that begin with # say nothing. Raises BadKeyFile."""
    return KeyRing(entries(content, _key, _MEMBERS))


def line(key: Key) -> str:
    """Return a key's line for the file, without its end."""
    members = {
        "id": key.id,
        "client": key.client,
        "sha256": key.sha256,
        "kinds": None if key.kinds is None else list(key.kinds),
        "requests": None if key.requests is None else str(key.requests),
        "bytes": None if key.bytes is None else str(key.bytes),
        "callback": None if key.callback is None else key.callback.written(),
        "metrics": key.metrics or None,
        "created": day(key.created),
        "expires": day(key.expires),
    }
    return written(members)


def _key(value: Mapping[str, object]) -> Key:
    metrics = value.get("metrics", False)
    if metrics not in (True, False):
        raise ValueError("metrics: write true or false")
    client = text(value, "client", CLIENT_PATTERN)
    if client == ANONYMOUS:
        raise ValueError(f"client: {ANONYMOUS} is whom a door without keys takes everybody for")
    return Key(
        id=named_by(value),
        client=client,
        sha256=digest(value),
        kinds=_kinds(value),
        requests=_rate(value, "requests"),
        bytes=_rate(value, "bytes"),
        callback=_callback(value),
        metrics=bool(metrics),
        created=moment(value, "created"),
        expires=moment(value, "expires"),
    )


def _kinds(value: Mapping[str, object]) -> tuple[str, ...] | None:
    kinds = value.get("kinds")
    if kinds is None:
        return None
    if not isinstance(kinds, list) or not kinds or not all(isinstance(kind, str) and is_kind(kind) for kind in kinds):
        raise ValueError("kinds: write a list of kinds, or leave it out to allow all")
    return tuple(kinds)


def _rate(value: Mapping[str, object], name: str) -> Rate | None:
    told = value.get(name)
    if told is None:
        return None
    try:
        return Rate.read(str(told))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _callback(value: Mapping[str, object]) -> Callback | None:
    if value.get("callback") is None:
        return None
    try:
        return Callback.read(value["callback"])
    except ValueError as error:
        raise ValueError(f"callback: {error}") from error
