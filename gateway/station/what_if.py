"""What would have become of a refused request under other limits or modes; pure.

Owns the honesty of the answer. A request is judged twice by the door's own decision, once with everything that is not
known at its best and once at its worst: only where both agree is there an answer.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, TypeGuard

from gateway.admission import Admitted, AttachmentFacts, Facts, Limits, TokenCount, Violation, decide
from gateway.contract import kind_limits, rules
from gateway.contract.rules import Mode, Rule, Stage

_MEASURED: Final = frozenset(
    {Rule.BODY_TOO_LARGE, Rule.TOO_MANY_ATTACHMENTS, Rule.ATTACHMENT_TOO_LARGE, Rule.TOO_MANY_TOKENS}
)
"""Rules whose facts are on record, so that they can be judged anew."""
_UTF8_GROWTH: Final = 3
"""A byte of any charset that the door reads is at most so many bytes of UTF-8, and a token has at least one."""
_ANY_TYPE: Final = "a/a"


@dataclass(frozen=True, slots=True, kw_only=True)
class Supposition:
    """What is to be different; all else is as it was when each request was refused."""

    limits: Mapping[str, int] = field(default_factory=dict)
    modes: Mapping[Rule, Mode] = field(default_factory=dict)


class Fate(StrEnum):
    """What would have become of it."""

    PASSES = "passes"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A fate, and for an unknown one the fact that is missing."""

    fate: Fate
    missing: str | None = None


def suppose(written: Sequence[str]) -> Supposition:
    """Read assumptions such as `max_tokens=200000` and `lossy_text=off`; raises ValueError."""
    limits: dict[str, int] = {}
    modes: dict[str, str] = {}
    for assumption in written:
        name, equals, value = (part.strip() for part in assumption.partition("="))
        if not equals:
            raise ValueError(f"{assumption}: write a limit or a rule and its value, such as max_tokens=200000")
        if name in kind_limits.NUMBERS:
            number = int(value) if value.isdecimal() and value.isascii() else value
            try:
                limits[name] = kind_limits.value(name, number)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        elif name in tuple(Rule):
            modes[name] = value
        else:
            known = ", ".join((*kind_limits.NUMBERS, *sorted(rules.SOFT)))
            raise ValueError(f"{name} is no limit and no rule; known are {known}")
    return Supposition(limits=limits, modes=rules.read(modes))


def judge(
    violations: Iterable[Any], size: int | None, facts: Mapping[str, Any] | None, supposition: Supposition
) -> Judgement:
    """Judge one refused request by what is on record of it; never raises, whatever that is."""
    known = facts or {}
    broken = [violation for violation in violations if isinstance(violation, Mapping)]
    findings = tuple(_finding(violation) for violation in broken)
    if not findings or None in findings:
        return Judgement(fate=Fate.UNKNOWN, missing="rule")
    kept = tuple(finding for finding in findings if finding is not None and finding.rule not in _MEASURED)
    broke = [finding.rule for finding in findings if finding is not None]
    if not isinstance(decide(Facts(bytes=0, findings=kept), _limits({}, broke, supposition)), Admitted):
        return Judgement(fate=Fate.REFUSED)
    if not isinstance(known.get("limits"), Mapping) or size is None:
        return Judgement(fate=Fate.UNKNOWN, missing="facts")
    limits = _limits(known, broke, supposition)
    best = Facts(bytes=size, findings=kept, attachments=_attachments(known, broken), tokens=_tokens(known))
    if not isinstance(decide(best, limits), Admitted):
        return Judgement(fate=Fate.REFUSED)
    missing = _missing(known, best, limits)
    return Judgement(fate=Fate.PASSES if missing is None else Fate.UNKNOWN, missing=missing)


def _missing(known: Mapping[str, Any], best: Facts, limits: Limits) -> str | None:
    """Name the fact that at its worst would still refuse it, None if there is none."""
    if known.get("whole") is not True:
        return "body"
    if known.get("stage") not in {Stage.ATTACHMENTS, Stage.TOKENS}:
        return "checks after the first that failed"
    if len(_files(known)) < len(best.attachments):
        return "attachments"
    most = best.bytes * _UTF8_GROWTH
    worst = TokenCount(tokens=most, at_least=most, at_most=most)
    if best.tokens is not None:
        most = best.tokens.at_most
        worst = replace(best.tokens, tokens=most, at_least=most)
    return None if isinstance(decide(replace(best, tokens=worst), limits), Admitted) else "tokens"


def _limits(known: Mapping[str, Any], broke: Iterable[Rule], supposition: Supposition) -> Limits:
    told: Mapping[str, Any] = known.get("limits", {})
    held_to = {name: told[name] for name in kind_limits.NUMBERS if _is_count(told.get(name))}
    limits = replace(Limits(), **{**held_to, **supposition.limits})
    try:
        modes = rules.read(known.get("rules", {}))
    except ValueError:
        modes = {}
    # What it broke was enforced then.
    modes |= {**dict.fromkeys(broke, Mode.ENFORCE), **supposition.modes}
    return replace(limits, max_attachment_bytes=limits.max_body_bytes, rules=modes)


def _finding(violation: Mapping[str, Any]) -> Violation | None:
    try:
        return Violation(rule=Rule(str(violation.get("rule"))), message="")
    except ValueError:
        return None


def _attachments(known: Mapping[str, Any], broken: Iterable[Mapping[str, Any]]) -> tuple[AttachmentFacts, ...]:
    """The attachments as far as they are known: where only their number is, they count as empty."""
    files = _files(known)
    told = [violation.get("actual") for violation in broken if violation.get("rule") == Rule.TOO_MANY_ATTACHMENTS]
    numbers = [number for number in (known.get("attachments"), *told) if _is_count(number)]
    count = min(max([len(files), *numbers]), 2**16)
    sizes = [*files, *([0] * (count - len(files)))]
    return tuple(AttachmentFacts(name="", content_type=_ANY_TYPE, bytes=size) for size in sizes)


def _files(known: Mapping[str, Any]) -> list[int]:
    files = known.get("files")
    found = [file[1] for file in files if isinstance(file, list) and len(file) > 1] if isinstance(files, list) else []
    return [size for size in found if _is_count(size)]


def _tokens(known: Mapping[str, Any]) -> TokenCount | None:
    match known.get("tokens"):
        case [int(least), int(most)] if 0 <= least <= most:
            return TokenCount(tokens=least, at_least=least, at_most=most)
        case _:
            return None


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
