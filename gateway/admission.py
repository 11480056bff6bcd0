"""The decision at the door: measured facts and limits in, Admitted or Refused out.

Owns the limits and what a violation says; the names of the rules are the contract's. Pure: no I/O, no clock, and
nothing but the standard library and the contract, so that the door, the consumer's preflight and a reviewer's "what if"
decide alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum, unique
from functools import cached_property

from gateway.contract.kind_limits import KindLimits
from gateway.contract.rules import DEFAULTS, SOFT, Mode, Rule, Stage, softer
from gateway.contract.values import value

__all__ = [
    "Admitted",
    "AttachmentFacts",
    "Confidence",
    "Facts",
    "Limits",
    "Mode",
    "Refused",
    "Rule",
    "Stage",
    "TokenCount",
    "Violation",
    "decide",
    "too_large",
]

_ORDER = {stage: position for position, stage in enumerate(Stage)}
_WAIVED_BY_DEFAULT = frozenset(rule for rule in SOFT if DEFAULTS[rule] is not Mode.ENFORCE)


@unique
class Confidence(StrEnum):
    """Whether a violation's `actual` was counted or is known only within a margin."""

    EXACT = "exact"
    ESTIMATE = "estimate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One rule that an input breaks. Never carries more of the payload than a name of at most 64 characters.

    `pointer` is an RFC 6901 JSON pointer into the ticket; "" is the whole body. `offset` counts bytes of the body (of
    the part, in a multipart body) from 0. `hint` is what the client most likely meant, for a person to read.
    """

    rule: Rule
    message: str
    pointer: str = ""
    limit: int | str | None = None
    actual: int | str | None = None
    unit: str | None = None
    confidence: Confidence = Confidence.EXACT
    offset: int | None = None
    hint: str | None = None


@value(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """How many tokens a ticket's text has: a figure to show, and the bounds that decide.

    `at_least` and `at_most` hold for certain (a text has at least one byte a token), or within 0.5 % where a text had
    to be cut at a place its vocabulary may join. `exact` means all three are equal and are the whole count.
    """

    tokens: int
    at_least: int
    at_most: int

    @property
    def exact(self) -> bool:
        """Whether the number is the one tiktoken gives for the whole text."""
        return self.at_least == self.tokens == self.at_most


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentFacts:
    """What was measured of one attachment. The name is for showing only and never a path.

    `content_type` is as declared, `sniffed` what its first bytes say (None: nothing known); `fits` is False when they
    say something else.
    """

    name: str
    content_type: str
    bytes: int
    sniffed: str | None = None
    fits: bool = True


@value(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of one input so far; what was not measured yet is None or empty and breaks no limit.

    `kind` is the ticket's, where a well-formed one was named. `charset` is a codec name of Python, `charset_source` one
    of bom, declared, ascii, utf-8, detected, format.
    `findings` are violations of the checks that need no limit, such as a byte that does not decode.
    """

    bytes: int
    content_type: str | None = None
    kind: str | None = None
    charset: str | None = None
    charset_source: str | None = None
    tokens: TokenCount | None = None
    attachments: tuple[AttachmentFacts, ...] = ()
    warnings: tuple[str, ...] = ()
    findings: tuple[Violation, ...] = ()

    @property
    def known_charset(self) -> str:
        """The charset, where nothing else is known the one of all that is ordinary."""
        return self.charset or "utf-8"

    @property
    def counted(self) -> int:
        """How many tokens there are, as a figure to show."""
        return 0 if self.tokens is None else self.tokens.tokens

    @property
    def is_exact(self) -> bool:
        """Whether that figure is the one tiktoken gives for the whole text."""
        return self.tokens is not None and self.tokens.exact


@dataclass(frozen=True, kw_only=True)
class Limits:  # without slots: what follows from it is asked for with every ticket, and worked out once
    """What the door lets in. Sizes in bytes of content (inflated), tokens of the configured vocabulary.

    `attachment_types` are media types, where `*` stands for any subtype or any type. `rules` has the modes that are not
    as they are by default. `kinds` has what differs for some kinds; all else is as said here.
    """

    max_body_bytes: int = 524_288
    max_tokens: int = 128_000
    max_attachments: int = 10
    max_attachment_bytes: int = 524_288
    attachment_types: tuple[str, ...] = ("*/*",)
    max_json_brackets: int = 100_000
    max_json_keys: int = 50_000
    max_json_depth: int = 128
    accept_detected: bool = False
    rules: Mapping[Rule, Mode] = field(default_factory=dict)
    kinds: Mapping[str, KindLimits] = field(default_factory=dict)
    waived: frozenset[Rule] = field(init=False, repr=False, compare=False)
    """Rules that refuse nothing."""

    def __post_init__(self) -> None:
        """Work out once what is asked for several times for each ticket."""
        soft = (rule for rule in SOFT if self.mode(rule) is not Mode.ENFORCE)
        object.__setattr__(self, "waived", frozenset(soft) if self.rules else _WAIVED_BY_DEFAULT)

    def of(self, kind: str | None) -> Limits:
        """The limits of one kind; while the kind is not known (None), the widest that any kind has."""
        if not self.kinds or (kind is not None and kind not in self.kinds):
            return self
        if (known := self._by_kind.get(kind)) is None:
            known = self._by_kind[kind] = self._made_for(kind)
        return known

    @cached_property
    def _by_kind(self) -> dict[str | None, Limits]:
        return {}

    def _made_for(self, kind: str | None) -> Limits:
        mine = self.kinds.values() if kind is None else (self.kinds[kind],)

        def widest(general: int, own: Iterable[int | None]) -> int:
            said = [general if limit is None else limit for limit in own]
            return max(said) if kind is not None else max(general, *said)

        return replace(
            self,
            max_body_bytes=widest(self.max_body_bytes, (one.max_body_bytes for one in mine)),
            max_attachment_bytes=widest(self.max_attachment_bytes, (one.max_body_bytes for one in mine)),
            max_tokens=widest(self.max_tokens, (one.max_tokens for one in mine)),
            max_attachments=widest(self.max_attachments, (one.max_attachments for one in mine)),
            rules=self._rules_of(kind),
        )

    def mode(self, rule: Rule) -> Mode:
        """How strictly `rule` is taken."""
        return self.rules.get(rule, DEFAULTS[rule])

    def softened(self, mode: Mode) -> Limits:
        """The same with every rule that may be softened in `mode`, for all kinds: what was let in can then be read."""
        kinds = {kind: replace(own, rules={}) for kind, own in self.kinds.items()}
        return replace(self, rules=dict.fromkeys(SOFT, mode), kinds=kinds)

    def _rules_of(self, kind: str | None) -> Mapping[Rule, Mode]:
        if kind is not None:
            return {**self.rules, **self.kinds[kind].rules}
        found = dict(self.rules)
        for own in self.kinds.values():
            found |= {rule: softer(mode, found.get(rule, DEFAULTS[rule])) for rule, mode in own.rules.items()}
        return found


@value(frozen=True, slots=True, kw_only=True)
class Admitted:
    """Nothing that is enforced speaks against it.

    `marked` are rules whose limit lies inside an estimate's margin, `observed` is what would refuse it if the rule were
    enforced.
    """

    facts: Facts
    marked: tuple[Rule, ...] = ()
    observed: tuple[Violation, ...] = ()

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of all rules that it may be said to break, each once."""
        return tuple(dict.fromkeys((*self.marked, *(violation.rule.value for violation in self.observed))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """No, and all the reasons the first failing stage has; `facts` is what had been measured by then."""

    stage: Stage
    violations: tuple[Violation, ...]
    facts: Facts

    @classmethod
    def because(cls, violation: Violation, facts: Facts) -> Refused:
        """A refusal for one reason."""
        return cls(stage=violation.rule.stage, violations=(violation,), facts=facts)


def decide(facts: Facts, limits: Limits) -> Admitted | Refused:
    """Judge the stages in order of cost and stop at the first that fails.

    A token count refuses only when its lower bound is over the cap; when only its upper bound is, the input is
    admitted and marked (G3). Rules that are off are passed over, and those that are observed refuse nothing (G6).
    """
    if _is_harmless(facts, limits):
        return Admitted(facts=facts)
    found = (*facts.findings, *_size(facts, limits), *_attachments(facts, limits), *_tokens(facts, limits))
    violations = [violation for violation in found if limits.mode(violation.rule) is Mode.ENFORCE]
    if violations:
        first = min((violation.rule.stage for violation in violations), key=_ORDER.__getitem__)
        failing = tuple(violation for violation in violations if violation.rule.stage is first)
        return Refused(stage=first, violations=failing, facts=facts)
    observed = tuple(violation for violation in found if limits.mode(violation.rule) is Mode.OBSERVE)
    marked = (Rule.TOO_MANY_TOKENS,) if _in_margin(facts, limits) else ()
    return Admitted(facts=facts, marked=marked, observed=observed)


def _is_harmless(facts: Facts, limits: Limits) -> bool:
    """Tell, at the cost of a glance, whether no rule can have anything to say: so it is for nearly every ticket."""
    return (
        not facts.findings
        and not facts.attachments
        and facts.bytes <= limits.max_body_bytes
        and (facts.tokens is None or facts.tokens.at_most <= limits.max_tokens)
    )


def _in_margin(facts: Facts, limits: Limits) -> bool:
    count = facts.tokens
    is_on = limits.mode(Rule.TOO_MANY_TOKENS) is not Mode.OFF
    return is_on and count is not None and count.at_least <= limits.max_tokens < count.at_most


def too_large(*, limit: int, actual: int, message: str) -> Violation:
    """The one shape of a violation of the byte cap, whoever notices it and however early."""
    return Violation(rule=Rule.BODY_TOO_LARGE, message=message, limit=limit, actual=actual, unit="bytes")


def _size(facts: Facts, limits: Limits) -> list[Violation]:
    if facts.bytes <= limits.max_body_bytes:
        return []
    message = f"the body has {facts.bytes} bytes; at most {limits.max_body_bytes} are admitted"
    return [too_large(limit=limits.max_body_bytes, actual=facts.bytes, message=message)]


def _attachments(facts: Facts, limits: Limits) -> list[Violation]:
    violations = []
    count = len(facts.attachments)
    if count > limits.max_attachments:
        violations.append(
            Violation(
                rule=Rule.TOO_MANY_ATTACHMENTS,
                message=f"{count} attachments; at most {limits.max_attachments} are admitted",
                pointer="/attachments",
                limit=limits.max_attachments,
                actual=count,
                unit="attachments",
            ),
        )
    for position, attachment in enumerate(facts.attachments):
        pointer = f"/attachments/{position}"
        if attachment.bytes > limits.max_attachment_bytes:
            violations.append(
                Violation(
                    rule=Rule.ATTACHMENT_TOO_LARGE,
                    message=f"the attachment has {attachment.bytes} bytes",
                    pointer=pointer,
                    limit=limits.max_attachment_bytes,
                    actual=attachment.bytes,
                    unit="bytes",
                ),
            )
        if not any(_fits(attachment.content_type, pattern) for pattern in limits.attachment_types):
            violations.append(
                Violation(
                    rule=Rule.ATTACHMENT_TYPE,
                    message="attachments of this type are not admitted",
                    pointer=f"{pointer}/content_type",
                    limit=", ".join(limits.attachment_types),
                    actual=attachment.content_type,
                ),
            )
        if not attachment.fits:
            violations.append(_mismatch(attachment, pointer))
    return violations


def _mismatch(attachment: AttachmentFacts, pointer: str) -> Violation:
    found = attachment.sniffed or "something else"
    return Violation(
        rule=Rule.ATTACHMENT_MISMATCH,
        message=f"the attachment is declared as {attachment.content_type}, its first bytes are those of {found}",
        pointer=f"{pointer}/content_type",
        limit=attachment.content_type,
        actual=attachment.sniffed,
    )


def _fits(content_type: str, pattern: str) -> bool:
    kind, _, subtype = content_type.partition("/")
    wanted_kind, _, wanted_subtype = pattern.partition("/")
    return wanted_kind in ("*", kind) and wanted_subtype in ("*", subtype)


def _tokens(facts: Facts, limits: Limits) -> list[Violation]:
    count = facts.tokens
    if count is None or count.at_least <= limits.max_tokens:
        return []
    more = "" if count.exact else "at least "
    return [
        Violation(
            rule=Rule.TOO_MANY_TOKENS,
            message=f"the text has {more}{count.at_least} tokens; at most {limits.max_tokens} are admitted",
            limit=limits.max_tokens,
            actual=count.at_least,
            unit="tokens",
            confidence=Confidence.EXACT if count.exact else Confidence.ESTIMATE,
        ),
    ]
