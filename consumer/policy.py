"""What each kind of ticket is allowed: budgets, backoff, limits, how it ends.

Pure values; read and checked whole from settings, never changed afterwards.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from gateway.contract import kind_limits, knobs
from gateway.contract.envelope import MAX_SPENT, Spent
from gateway.contract.ids import is_kind

N = TypeVar("N", int, float)

MAX_DEPENDENCY: Final = 64
"""Bytes of a dependency's name."""


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
    max_spend: Spent = field(default_factory=Spent)
    """What the runs of an item may report together; 0 is no limit."""
    backoff_base: float = 30.0
    backoff_cap: float = 3600.0
    run_deadline: float = 300.0
    heartbeat: float = 0.0
    """How long a run may say nothing (`run.progress`, `run.spend`); 0 for as long as it likes."""
    memory_limit: int = 512 << 20
    on_exhausted: OnExhausted = OnExhausted.QUARANTINE
    permanent: frozenset[str] = frozenset()
    """Names of exception classes that are hopeless: one attempt, then quarantine."""
    convict_in_isolation: bool = False
    """Whether the second death of an item, in isolation, is enough, also where attempts remain."""
    needs: frozenset[str] = frozenset()
    """Dependencies without which its items are not started: those that `DependencyDown` names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The policy of every kind; kinds that are not named follow `default`."""

    default: Policy = field(default_factory=Policy)
    by_kind: Mapping[str, Policy] = field(default_factory=dict)
    longest_run: float = field(init=False, repr=False, compare=False)
    """The longest deadline of all kinds, in seconds."""

    def __post_init__(self) -> None:
        """Work out once what is asked for with every delivery."""
        longest = max(policy.run_deadline for policy in (self.default, *self.by_kind.values()))
        object.__setattr__(self, "longest_run", longest)

    def of(self, kind: str) -> Policy:
        """Return the policy that applies to `kind`."""
        return self.by_kind.get(kind, self.default)


_STATION_KEYS = frozenset({"owner", "review_within"})
"""Keys of a kind that only the station reads."""


def read(default: Policy, kinds: Mapping[str, Any]) -> Policies:
    """Return the policies of a `[kinds."..."]` table; raises ValueError with one line for each mistake."""
    by_kind, mistakes = {}, contradictions(default)
    for kind, table in kinds.items():
        changes, found = _changes(kind, table, default)
        by_kind[kind] = replace(default, **changes)
        if not found and contradictions(by_kind[kind]) != contradictions(default):
            found = [f'kinds."{kind}": {sentence}' for sentence in contradictions(by_kind[kind])]
        mistakes += found
    if mistakes:
        raise ValueError("\n".join(mistakes))
    return Policies(default=default, by_kind=by_kind)


def mistakes_in(kinds: Mapping[str, Any]) -> list[str]:
    """Return one line for each mistake that a `[kinds."..."]` table has by itself, whatever the defaults are."""
    return [mistake for kind, table in kinds.items() for mistake in _changes(kind, table, Policy())[1]]


def contradictions(policy: Policy) -> list[str]:
    """Return a sentence for each pair of rules of which one undoes the other."""
    cap, base = policy.backoff_cap, policy.backoff_base
    return (
        [f"backoff_cap ({cap:g} s) is below backoff_base ({base:g} s): no delay would ever grow"] if cap < base else []
    )


def _changes(kind: str, table: Any, default: Policy) -> tuple[dict[str, Any], list[str]]:
    """Return what one kind's table changes, and one line for each of its mistakes."""
    changes: dict[str, Any] = {}
    mistakes: list[str] = []
    if not is_kind(kind):
        mistakes.append(
            f'kinds."{kind}" is no kind: write 1 to 64 of a-z 0-9 . _ -, the first of them a letter or a digit'
        )
    if not isinstance(table, Mapping):
        return changes, [*mistakes, f'kinds."{kind}" is no table']
    for key, value in table.items():
        if key in _STATION_KEYS:
            continue
        try:
            if key in kind_limits.KEYS:
                kind_limits.value(key, value)  # for the preflight of what comes past the door; no policy
            else:
                changes[key] = _spend(value, default.max_spend) if key == "max_spend" else _value(key, value)
        except (ValueError, TypeError) as error:
            mistakes += [f'kinds."{kind}".{key}: {line}' for line in str(error).splitlines()]
    return changes, mistakes


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
            return _names(value, what="exception classes", such_as="ValueError")
        case "convict_in_isolation":
            if value not in (True, False):
                raise ValueError("write true or false")
            return bool(value)
        case "needs":
            return _names(value, what="dependencies", such_as="openai", most=MAX_DEPENDENCY)
        case _:
            known = ", ".join(sorted({item.name for item in fields(Policy)} | _STATION_KEYS | kind_limits.KEYS))
            hint = "; a kind with a dot in its name needs quotes" if isinstance(value, Mapping) else ""
            raise ValueError(f"is no policy; known are {known}{hint}")


def _spend(value: Any, default: Spent) -> Spent:
    """Read a budget; what it does not name is as it is for all kinds."""
    if not isinstance(value, Mapping) or not value or not value.keys() <= {"tokens", "usd"}:
        raise ValueError("write { tokens = 200000, usd = 1.5 }, or one of the two")
    usd = value.get("usd", default.usd)
    if not isinstance(usd, int | float) or isinstance(usd, bool) or not 0 <= usd <= MAX_SPENT:
        raise ValueError("write an amount such as usd = 1.5; 0 is no limit")
    return Spent(tokens=_whole(value.get("tokens", default.tokens), least=0), usd=float(usd))


def _names(value: Any, *, what: str, such_as: str, most: int = 1024) -> frozenset[str]:
    if not isinstance(value, list) or not all(
        isinstance(name, str) and 0 < len(name.encode()) <= most for name in value
    ):
        raise ValueError(f'write a list of {what}, of at most {most} bytes each, such as ["{such_as}"]')
    return frozenset(value)


def _positive(value: N) -> N:
    if value <= 0:
        raise ValueError("write more than nothing")
    return value


def _whole(value: Any, *, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"write a whole number of at least {least}")
    return value
