"""Whose each kind of ticket is to review, and within which time; pure.

Owns how the policy file writes it (`owner` and `review_within`, for all kinds and in a kind's table) and what its
values may be.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.contract import knobs
from gateway.contract.ids import is_kind

MAX_OWNER: Final = 64
"""Bytes of a name, which is a label of metrics, too."""
EVERY_OTHER: Final = ""
"""Stands for all kinds that have no duty of their own."""
_LONGEST: Final = 10 * 366 * 86400.0
"""Seconds; a deadline beyond it is somebody's mistake, and no date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """Who is to decide, and when at the latest."""

    owner: str = ""
    """A person or a team; empty: nobody in particular."""
    review_within: float = 0.0
    """Seconds after an item's arrival; 0: no deadline."""


def read(default: Duty, kinds: Mapping[str, Any]) -> dict[str, Duty]:
    """Return the duty of each kind that has one of its own, and of `EVERY_OTHER`.

    `kinds` is the table `[kinds."..."]`. Raises ValueError with a line for each mistake.
    """
    found = {EVERY_OTHER: default}
    mistakes: list[str] = []
    for kind, table in kinds.items():
        if not is_kind(kind) or not isinstance(table, Mapping):
            continue  # told by those who read the limits of the same table
        changes: dict[str, Any] = {}
        for key, reading in (("owner", owner), ("review_within", deadline)):
            if key not in table:
                continue
            try:
                changes[key] = reading(table[key])
            except ValueError as error:
                mistakes.append(f'kinds."{kind}".{key}: {error}')
        if changes:
            found[kind] = Duty(**{"owner": default.owner, "review_within": default.review_within, **changes})
    if mistakes:
        raise ValueError("\n".join(mistakes))
    return found


def owner(value: Any) -> str:
    """Read a name; raises ValueError."""
    name = value.strip() if isinstance(value, str) else None
    if name is None or not name.isprintable() or len(name.encode("utf-8", "replace")) > MAX_OWNER:
        raise ValueError(f"write a name of at most {MAX_OWNER} bytes on one line")
    return name


def deadline(value: Any) -> float:
    """Read a time to review within, in seconds; raises ValueError."""
    seconds = knobs.duration(value)
    if seconds > _LONGEST:
        raise ValueError("write a time of at most ten years; 0 is no deadline")
    return seconds
