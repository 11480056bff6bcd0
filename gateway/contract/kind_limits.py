"""The limits of the door that may differ by kind, as a `[kinds."..."]` table writes them.

Owns their names and bounds, so that door and fleet read one table alike. What a limit means is the admission's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from gateway.contract import knobs
from gateway.contract.ids import is_kind


@dataclass(frozen=True, slots=True, kw_only=True)
class KindLimits:
    """What differs for one kind; None is as for all the others. Bytes of content, tokens, attachments."""

    max_body_bytes: int | None = None
    max_tokens: int | None = None
    max_attachments: int | None = None


KEYS: Final = frozenset(field.name for field in fields(KindLimits))


def read(kinds: Mapping[str, Any]) -> dict[str, KindLimits]:
    """Return the limits of the kinds that have any; keys that are not ours are passed over.

    Raises ValueError with one line for each mistake.
    """
    found: dict[str, KindLimits] = {}
    mistakes: list[str] = []
    for kind, table in kinds.items():
        if not is_kind(kind):
            mistakes.append(f'kinds."{kind}" is no kind')
        if not isinstance(table, Mapping):
            mistakes.append(f'kinds."{kind}" is no table')
            continue
        ours: dict[str, int] = {}
        for key in table.keys() & KEYS:
            try:
                ours[key] = value(key, table[key])
            except ValueError as error:
                mistakes.append(f'kinds."{kind}".{key}: {error}')
        if ours:
            found[kind] = KindLimits(**ours)
    if mistakes:
        raise ValueError("\n".join(sorted(mistakes)))
    return found


def value(key: str, written: Any) -> int:
    """Read one limit, whose name is one of `KEYS`; raises ValueError."""
    if key == "max_body_bytes":
        size = knobs.size(written)
        if size < 1:
            raise ValueError("write more than nothing")
        return size
    least = 0 if key == "max_attachments" else 1
    if not isinstance(written, int) or isinstance(written, bool) or written < least:
        raise ValueError(f"write a whole number of at least {least}")
    return written
