"""What the door does differently for a kind, as a `[kinds."..."]` table writes it: limits, rules, privacy.

Owns their names and bounds, so that door and fleet read one table alike. What a limit means is the admission's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from gateway.contract import knobs, rules
from gateway.contract.ids import is_kind
from gateway.contract.rules import Mode, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class KindLimits:
    """What differs for one kind; None is as for all the others. Bytes of content, tokens, attachments."""

    max_body_bytes: int | None = None
    max_tokens: int | None = None
    max_attachments: int | None = None
    rules: Mapping[Rule, Mode] = field(default_factory=dict)
    """Modes that are not as they are for all the others."""
    private: bool = False
    """Nothing of what its tickets say is kept of those that were refused."""

    @property
    def numbers(self) -> dict[str, int]:
        """The limits that differ, by name."""
        found = {key: getattr(self, key) for key in NUMBERS}
        return {key: limit for key, limit in found.items() if limit is not None}


NUMBERS: Final = ("max_body_bytes", "max_tokens", "max_attachments")
KEYS: Final = frozenset(one.name for one in fields(KindLimits))


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
        ours: dict[str, Any] = {}
        for key in table.keys() & KEYS:
            try:
                ours[key] = value(key, table[key])
            except ValueError as error:
                mistakes += [f'kinds."{kind}".{key}: {line}' for line in str(error).splitlines()]
        if ours:
            found[kind] = KindLimits(**ours)
    if mistakes:
        raise ValueError("\n".join(sorted(mistakes)))
    return found


def value(key: str, written: Any) -> Any:
    """Read what one of `KEYS` says; raises ValueError, with a line for each mistake."""
    if key == "rules":
        return rules.read(written)
    if key == "private":
        if not isinstance(written, bool):
            raise ValueError("write true or false")
        return written
    if key == "max_body_bytes":
        size = knobs.size(written)
        if size < 1:
            raise ValueError("write more than nothing")
        return size
    least = 0 if key == "max_attachments" else 1
    if not isinstance(written, int) or isinstance(written, bool) or written < least:
        raise ValueError(f"write a whole number of at least {least}")
    return written
