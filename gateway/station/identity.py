"""Who asks at the desk, and what that person may do; pure.

Owns the roles and what each includes. An identity is made by `gateway.station.desk.doorkeeper` and by nobody else.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What somebody may do; each includes the ones before it."""

    READER = "reader"
    """Reads everything, bodies included."""
    REVIEWER = "reviewer"
    """Decides about items, and lets refused requests in."""
    ADMIN = "admin"
    """Also does what concerns everybody's items at once."""

    def includes(self, other: "Role") -> bool:
        """Tell whether this role may all that `other` may."""
        return _ORDER.index(self) >= _ORDER.index(other)


_ORDER: Final = tuple(Role)


class Via(StrEnum):
    """How we know who asks."""

    LOOPBACK = "loopback"
    """From this machine, where nobody is asked for a key."""
    KEY = "key"
    SESSION = "session"
    """With a key, earlier."""
    PROXY = "proxy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One person or program at the desk."""

    name: str | None
    """What the audit log will say; None where nobody is asked for a key and no name is set: then forms ask for one."""
    role: Role
    via: Via
    key: str | None = None
    """Id of the key, no secret."""

    def may(self, role: Role) -> bool:
        """Tell whether this identity may do what takes `role`."""
        return self.role.includes(role)

    @property
    def may_decide(self) -> bool:
        """Tell whether it may change anything."""
        return self.may(Role.REVIEWER)

    def actor(self, given: str | None) -> str:
        """Return who an act is put down to; raises ValueError without a name.

        Whoever proved who he is cannot act as somebody else; where nobody is asked for a key, the name `given` counts.
        """
        named = (given or "").strip()
        name = (named or self.name) if self.via is Via.LOOPBACK else self.name
        if not name:
            raise ValueError("say who you are: an act without a name is nobody's")
        return name
