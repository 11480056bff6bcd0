"""The keys of the people at the desk, as their file has them.

Owns whose a key is. Pure: reads text and makes text, in the form of `gateway.key_lines`. The keys themselves are made
like those of the door (docs/decisions/0012).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gateway.key_lines import Ring, day, digest, entries, expired, moment, named_by, written
from gateway.station.identity import Role

MAX_NAME: Final = 64
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
        return expired(self, now)


class ReviewerRing(Ring[ReviewerKey]):
    """The keys of one reading of the file."""


def read(text: str) -> ReviewerRing:
    """Read a file; blank lines and lines that begin with # say nothing. Raises BadKeyFile."""
    return ReviewerRing(entries(text, _key, _MEMBERS))


def line(key: ReviewerKey) -> str:
    """Return a key's line for the file, without its end."""
    members = {
        "id": key.id,
        "name": key.name,
        "role": key.role.value,
        "sha256": key.sha256,
        "created": day(key.created),
        "expires": day(key.expires),
    }
    return written(members)


def person(text: str) -> str:
    """Return a name fit for the audit log; raises ValueError."""
    name = text.strip()
    if not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise ValueError(f"write a name of 1 to {MAX_NAME} printable characters")
    return name


def _key(value: Mapping[str, object]) -> ReviewerKey:
    try:
        role = Role(str(value.get("role")))
    except ValueError:
        raise ValueError(f"role: write one of {', '.join(Role)}") from None
    name = value.get("name")
    try:
        whose = person(name if isinstance(name, str) else "")
    except ValueError as error:
        raise ValueError(f"name: {error}") from None
    moments = {name: moment(value, name) for name in ("created", "expires")}
    return ReviewerKey(id=named_by(value), name=whose, role=role, sha256=digest(value), **moments)
