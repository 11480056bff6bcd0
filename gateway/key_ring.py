"""The keys that open the door, as the key file has them: one JSON object a line, hashes of keys only, and the
secrets of callbacks, which nobody can sign with otherwise.

Owns the file's form and what a key allows. Pure: reads text and makes text; a file with one mistake is refused whole.
"""

import hmac
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from gateway.api_key import KEY_ID_PATTERN, ApiKey
from gateway.callback import Callback
from gateway.contract.ids import is_kind
from gateway.quota import Rate

ANONYMOUS: Final = "anonymous"
"""Whom a door without keys takes everybody for; no key can be of this client."""
CLIENT_PATTERN: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NOBODY: Final = "0" * 64
"""Compared with where an id is unknown, so that its answer takes as long as that to a wrong secret."""
_MEMBERS: Final = frozenset(
    {"id", "client", "sha256", "kinds", "requests", "bytes", "callback", "metrics", "created", "expires"},
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
        return self.expires is not None and self.expires.timestamp() <= now

    def allows(self, kind: str) -> bool:
        """Tell whether tickets of this kind may be submitted with it."""
        return self.kinds is None or kind in self.kinds


class BadKeyFile(ValueError):
    """A key file that cannot be used; `problems` has a sentence for each mistake, none with a key in it."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class KeyRing:
    """The keys of one reading of the file."""

    def __init__(self, keys: Iterable[Key]) -> None:
        """Raises BadKeyFile when they contradict each other."""
        given = tuple(keys)
        self._keys = {key.id: key for key in given}
        problems = [f"key {name} occurs twice" for name, count in Counter(key.id for key in given).items() if count > 1]
        self.clients: dict[str, Key] = {}
        """A key of each client: its quota is the same in all of them."""
        for key in given:
            first = self.clients.setdefault(key.client, key)
            if (first.requests, first.bytes) != (key.requests, key.bytes):
                problems.append(f"key {key.id}: its client {key.client} has another quota in key {first.id}")
        self.callbacks: dict[str, tuple[Callback, ...]] = {}
        """Of each client that has one: with the secrets of all its keys, so that one can take the place of another."""
        for key in given:
            if key.callback is None:
                continue
            known = self.callbacks.get(key.client, ())
            if known and known[0].url != key.callback.url:
                problems.append(f"key {key.id}: its client {key.client} has another callback in another key")
            self.callbacks[key.client] = (*known, key.callback)
        if problems:
            raise BadKeyFile(problems)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys.values())

    def __len__(self) -> int:
        return len(self._keys)

    def opens(self, presented: ApiKey) -> Key | None:
        """Return the key that was presented if it is one of ours, expired or not; in constant time."""
        key = self._keys.get(presented.id)
        same = hmac.compare_digest(presented.digest, _NOBODY if key is None else key.sha256)
        return key if same else None


def read(text: str) -> KeyRing:
    """Read a key file; blank lines and lines that begin with # say nothing. Raises BadKeyFile."""
    keys, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not is_entry(line):
            continue
        try:
            keys.append(_key(orjson.loads(line)))
        except orjson.JSONDecodeError:
            problems.append(f"line {number}: no JSON object")  # whose text might quote the line
        except ValueError as error:
            problems.append(f"line {number}: {error}")
    if problems:
        raise BadKeyFile(problems)
    return KeyRing(keys)


def is_entry(line: str) -> bool:
    """Tell whether a line of the file has a key."""
    return bool(line.strip()) and not line.lstrip().startswith("#")


def line(key: Key) -> str:
    """Return a key's line for the file, without its end."""
    members: dict[str, Any] = {
        "id": key.id,
        "client": key.client,
        "sha256": key.sha256,
        "kinds": None if key.kinds is None else list(key.kinds),
        "requests": None if key.requests is None else str(key.requests),
        "bytes": None if key.bytes is None else str(key.bytes),
        "callback": None if key.callback is None else key.callback.written(),
        "metrics": key.metrics or None,
        "created": None if key.created is None else key.created.isoformat(),
        "expires": None if key.expires is None else key.expires.isoformat(),
    }
    return orjson.dumps({name: value for name, value in members.items() if value is not None}).decode()


def _key(value: object) -> Key:
    if not isinstance(value, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 - the reader of the file collects ValueErrors
    if not set(value) <= _MEMBERS:
        raise ValueError(f"a key has nothing but {', '.join(sorted(_MEMBERS))}")
    metrics = value.get("metrics", False)
    if metrics not in (True, False):
        raise ValueError("metrics: write true or false")
    client = _text(value, "client", CLIENT_PATTERN)
    if client == ANONYMOUS:
        raise ValueError(f"client: {ANONYMOUS} is whom a door without keys takes everybody for")
    return Key(
        id=_text(value, "id", KEY_ID_PATTERN),
        client=client,
        sha256=_text(value, "sha256", _DIGEST),
        kinds=_kinds(value),
        requests=_rate(value, "requests"),
        bytes=_rate(value, "bytes"),
        callback=_callback(value),
        metrics=bool(metrics),
        created=_moment(value, "created"),
        expires=_moment(value, "expires"),
    )


def _text(value: Mapping[str, object], name: str, pattern: re.Pattern[str]) -> str:
    text = value.get(name)
    if not isinstance(text, str) or pattern.fullmatch(text) is None:
        raise ValueError(f"{name}: must be there and match {pattern.pattern}")
    return text


def _kinds(value: Mapping[str, object]) -> tuple[str, ...] | None:
    kinds = value.get("kinds")
    if kinds is None:
        return None
    if not isinstance(kinds, list) or not kinds or not all(isinstance(kind, str) and is_kind(kind) for kind in kinds):
        raise ValueError("kinds: write a list of kinds, or leave it out to allow all")
    return tuple(kinds)


def _rate(value: Mapping[str, object], name: str) -> Rate | None:
    text = value.get(name)
    if text is None:
        return None
    try:
        return Rate.read(str(text))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _callback(value: Mapping[str, object]) -> Callback | None:
    if value.get("callback") is None:
        return None
    try:
        return Callback.read(value["callback"])
    except ValueError as error:
        raise ValueError(f"callback: {error}") from error


def _moment(value: Mapping[str, object], name: str) -> datetime | None:
    text = value.get(name)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError as error:
        raise ValueError(f"{name}: write a date such as 2027-01-31 or 2027-01-31T12:00:00Z") from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
