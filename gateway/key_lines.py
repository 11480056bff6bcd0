"""What the key files of door and desk have in common: one JSON object a line, hashes of keys only.

Owns that form, how a key that is presented is recognised, and that a file with one mistake is refused whole. Pure;
knows nothing of what a key allows.
"""

import hmac
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Generic, Protocol, TypeVar

import orjson

from gateway.api_key import KEY_ID_PATTERN, ApiKey

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NOBODY: Final = "0" * 64
"""Compared with where an id is unknown, so that its answer takes as long as that to a wrong secret."""


class BadKeyFile(ValueError):
    """A key file that cannot be used; `problems` has a sentence for each mistake, none with a key in it."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class Line(Protocol):
    """One key, as its line says."""

    @property
    def id(self) -> str: ...  # noqa: D102
    @property
    def sha256(self) -> str: ...  # noqa: D102
    @property
    def expires(self) -> datetime | None: ...  # noqa: D102


Entry = TypeVar("Entry")
OneKey = TypeVar("OneKey", bound=Line)


class Ring(Generic[OneKey]):
    """The keys of one reading of a file."""

    def __init__(self, keys: Iterable[OneKey]) -> None:
        """Raises BadKeyFile when an id occurs twice, or the keys contradict each other."""
        given = tuple(keys)
        self._keys = {key.id: key for key in given}
        twice = [name for name, count in Counter(key.id for key in given).items() if count > 1]
        problems = [f"key {name} occurs twice" for name in twice] + self._contradictions(given)
        if problems:
            raise BadKeyFile(problems)

    def _contradictions(self, _keys: Iterable[OneKey]) -> list[str]:
        return []

    def __iter__(self) -> Iterator[OneKey]:
        return iter(self._keys.values())

    def __len__(self) -> int:
        return len(self._keys)

    def named(self, key: str) -> OneKey | None:
        """Return the key of this id."""
        return self._keys.get(key)

    def opens(self, presented: ApiKey) -> OneKey | None:
        """Return the key that was presented if it is one of ours, expired or not; in constant time."""
        key = self._keys.get(presented.id)
        same = hmac.compare_digest(presented.digest, _NOBODY if key is None else key.sha256)
        return key if same else None


def expired(key: Line, now: float) -> bool:
    """Tell whether a key's time is over at `now`, Unix seconds."""
    return key.expires is not None and key.expires.timestamp() <= now


def entries(content: str, entry: Callable[[Mapping[str, object]], Entry], members: Collection[str]) -> list[Entry]:
    """Read a file, each line with `entry`, which raises ValueError; raises BadKeyFile.

    `members` are those that a line may have. Blank lines and those that begin with # say nothing.
    """
    found, problems = [], []
    for number, line in enumerate(content.splitlines(), 1):
        if not is_entry(line):
            continue
        try:
            found.append(entry(_object(orjson.loads(line), members)))
        except orjson.JSONDecodeError:
            problems.append(f"line {number}: no JSON object")  # whose text might quote the line
        except ValueError as error:
            problems.append(f"line {number}: {error}")
    if problems:
        raise BadKeyFile(problems)
    return found


def is_entry(line: str) -> bool:
    """Tell whether a line of the file has a key."""
    return bool(line.strip()) and not line.lstrip().startswith("#")


def written(members: Mapping[str, Any]) -> str:
    """Return a line for the file, without its end; what is None is left out."""
    return orjson.dumps({name: value for name, value in members.items() if value is not None}).decode()


def named_by(value: Mapping[str, object]) -> str:
    """Read a key's id; raises ValueError."""
    return text(value, "id", KEY_ID_PATTERN)


def digest(value: Mapping[str, object]) -> str:
    """Read the hash of a key; raises ValueError."""
    return text(value, "sha256", _DIGEST)


def text(value: Mapping[str, object], name: str, pattern: re.Pattern[str]) -> str:
    """Read a member that must be there and match; raises ValueError."""
    found = value.get(name)
    if not isinstance(found, str) or pattern.fullmatch(found) is None:
        raise ValueError(f"{name}: must be there and match {pattern.pattern}")
    return found


def moment(value: Mapping[str, object], name: str) -> datetime | None:
    """Read a member that is a date, in UTC unless it says otherwise; raises ValueError."""
    told = value.get(name)
    if told is None:
        return None
    try:
        found = datetime.fromisoformat(str(told))
    except ValueError as error:
        raise ValueError(f"{name}: write a date such as 2027-01-31 or 2027-01-31T12:00:00Z") from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def day(found: datetime | None) -> str | None:
    """Write a date as `moment` reads it."""
    return None if found is None else found.isoformat()


def _object(value: object, members: Collection[str]) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 - the reader of the file collects ValueErrors
    if not set(value) <= set(members):
        raise ValueError(f"a key has nothing but {', '.join(members)}")
    return value
