"""The keys of the people at the desk, as their file has them: one JSON object a line, hashes of keys only.

Owns the file's form. Pure: reads text and makes text; a file with one mistake is refused whole. The keys themselves are
made like those of the door (docs/decisions/0012).
"""

import hmac
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import orjson

from gateway.api_key import KEY_ID_PATTERN, ApiKey
from gateway.key_ring import BadKeyFile, is_entry
from gateway.station.identity import Role

MAX_NAME: Final = 64
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NOBODY: Final = "0" * 64
"""Compared with where an id is unknown, so that its answer takes as long as that to a wrong secret."""
_MEMBERS: Final = ("id", "name", "role", "sha256", "created", "expires")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewerKey:
    """One line of the file."""

    id: str
    name: str
    """Whose it is, as the audit log will say."""
    role: Role
    sha256: str
    created: datetime | None = None
    expires: datetime | None = None

    def expired(self, now: float) -> bool:
        """Tell whether its time is over at `now`, Unix seconds."""
        return self.expires is not None and self.expires.timestamp() <= now


class ReviewerRing:
    """The keys of one reading of the file."""

    def __init__(self, keys: Iterable[ReviewerKey]) -> None:
        """Raises BadKeyFile when an id occurs twice."""
        given = tuple(keys)
        self._keys = {key.id: key for key in given}
        twice = [name for name, count in Counter(key.id for key in given).items() if count > 1]
        if twice:
            raise BadKeyFile([f"key {name} occurs twice" for name in twice])

    def __iter__(self) -> Iterator[ReviewerKey]:
        return iter(self._keys.values())

    def __len__(self) -> int:
        return len(self._keys)

    def named(self, key: str) -> ReviewerKey | None:
        """Return the key of this id."""
        return self._keys.get(key)

    def opens(self, presented: ApiKey) -> ReviewerKey | None:
        """Return the key that was presented if it is one of ours, expired or not; in constant time."""
        key = self._keys.get(presented.id)
        same = hmac.compare_digest(presented.digest, _NOBODY if key is None else key.sha256)
        return key if same else None


def read(text: str) -> ReviewerRing:
    """Read a file; blank lines and lines that begin with # say nothing. Raises BadKeyFile."""
    keys, problems = [], []
    for number, entry in enumerate(text.splitlines(), 1):
        if not is_entry(entry):
            continue
        try:
            keys.append(_key(orjson.loads(entry)))
        except orjson.JSONDecodeError:
            problems.append(f"line {number}: no JSON object")  # whose text might quote the line
        except ValueError as error:
            problems.append(f"line {number}: {error}")
    if problems:
        raise BadKeyFile(problems)
    return ReviewerRing(keys)


def line(key: ReviewerKey) -> str:
    """Return a key's line for the file, without its end."""
    members = {
        "id": key.id,
        "name": key.name,
        "role": key.role.value,
        "sha256": key.sha256,
        "created": None if key.created is None else key.created.isoformat(),
        "expires": None if key.expires is None else key.expires.isoformat(),
    }
    return orjson.dumps({name: value for name, value in members.items() if value is not None}).decode()


def person(text: str) -> str:
    """Return a name fit for the audit log; raises ValueError."""
    name = text.strip()
    if not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise ValueError(f"write a name of 1 to {MAX_NAME} printable characters")
    return name


def _key(value: object) -> ReviewerKey:
    if not isinstance(value, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 - the reader of the file collects ValueErrors
    if not set(value) <= set(_MEMBERS):
        raise ValueError(f"a key has nothing but {', '.join(_MEMBERS)}")
    try:
        role = Role(_text(value, "role"))
    except ValueError:
        raise ValueError(f"role: write one of {', '.join(Role)}") from None
    name, digest = _text(value, "id"), _text(value, "sha256")
    if KEY_ID_PATTERN.fullmatch(name) is None:
        raise ValueError(f"id: must match {KEY_ID_PATTERN.pattern}")
    if _DIGEST.fullmatch(digest) is None:
        raise ValueError(f"sha256: must match {_DIGEST.pattern}")
    try:
        whose = person(_text(value, "name"))
    except ValueError as error:
        raise ValueError(f"name: {error}") from None
    moments = {moment: _moment(value, moment) for moment in ("created", "expires")}
    return ReviewerKey(id=name, name=whose, role=role, sha256=digest, **moments)


def _text(value: Mapping[str, object], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str):
        raise ValueError(f"{name}: must be there, as text")  # noqa: TRY004 - as above
    return found


def _moment(value: Mapping[str, object], name: str) -> datetime | None:
    text = value.get(name)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError as error:
        raise ValueError(f"{name}: write a date such as 2027-01-31 or 2027-01-31T12:00:00Z") from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
