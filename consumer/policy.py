"""What each kind of ticket is allowed: budgets, backoff, limits, how it ends.

Pure values; read and checked whole from settings, never changed afterwards.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, TypeVar

from gateway.contract import knobs

N = TypeVar("N", int, float)


class OnExhausted(StrEnum):
    """What becomes of an item whose budget is used up."""

    QUARANTINE = "quarantine"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules for one kind; durations in seconds, sizes in bytes."""

    max_attempts: int = 3
    """Charged starts in one generation."""
    max_crashes: int = 3
    """Runs of one generation that may end with a dead worker or a vanished holder."""
    max_interruptions: int = 20
    """Uncharged returns in one generation; waits for a dependency are no part of them."""
    max_wait: float = 86400.0
    """How long an item may wait for a dependency without a charged run in between."""
    backoff_base: float = 30.0
    backoff_cap: float = 3600.0
    run_deadline: float = 300.0
    heartbeat: float = 0.0
    """How long a run may say nothing (`run.progress`, `run.spend`); 0 for as long as it likes."""
    memory_limit: int = 512 << 20
    on_exhausted: OnExhausted = OnExhausted.QUARANTINE
    permanent: frozenset[str] = frozenset()
    """Names of exception classes that are hopeless: one attempt, then quarantine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The policy of every kind; kinds that are not named follow `default`."""

    default: Policy = field(default_factory=Policy)
    by_kind: Mapping[str, Policy] = field(default_factory=dict)

    def of(self, kind: str) -> Policy:
        """Return the policy that applies to `kind`."""
        return self.by_kind.get(kind, self.default)


_STATION_KEYS = frozenset({"owner", "review_within"})
"""Keys of a kind that only the station reads."""


def read(default: Policy, kinds: Mapping[str, Any]) -> Policies:
    """Return the policies of a `[kinds."..."]` table; raises ValueError with one line for each mistake."""
    mistakes: list[str] = []
    by_kind: dict[str, Policy] = {}
    for kind, table in kinds.items():
        if not isinstance(table, Mapping):
            mistakes.append(f'kinds."{kind}" is no table')
            continue
        changes: dict[str, Any] = {}
        for key, value in table.items():
            if key in _STATION_KEYS:
                continue
            try:
                changes[key] = _value(key, value)
            except (ValueError, TypeError) as error:
                mistakes.append(f'kinds."{kind}".{key}: {error}')
        by_kind[kind] = replace(default, **changes)
    if mistakes:
        raise ValueError("\n".join(mistakes))
    return Policies(default=default, by_kind=by_kind)


def _value(key: str, value: Any) -> Any:
    match key:
        case "max_attempts" | "max_crashes":
            return _whole(value, least=1)
        case "max_interruptions":
            return _whole(value, least=0)
        case "backoff_base" | "backoff_cap":
            return knobs.duration(value)
        case "heartbeat":
            return knobs.duration(value)
        case "run_deadline" | "max_wait":
            return _positive(knobs.duration(value))
        case "memory_limit":
            return _positive(knobs.size(value))
        case "on_exhausted":
            return OnExhausted(value)
        case "permanent":
            if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
                raise ValueError('write a list of exception classes such as ["ValueError"]')
            return frozenset(value)
        case _:
            known = ", ".join(sorted({item.name for item in fields(Policy)} | _STATION_KEYS))
            raise ValueError(f"is no policy; known are {known}")


def _positive(value: N) -> N:
    if value <= 0:
        raise ValueError("write more than nothing")
    return value


def _whole(value: Any, *, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"write a whole number of at least {least}")
    return value
