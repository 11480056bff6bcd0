"""The rules of admission by name, and how strictly each is taken: off, observe or enforce.

Owns the names that clients, metrics, settings and the refusal record share, and which of the rules may be softened at
all. What breaks a rule is the admission's to say.
"""

from collections.abc import Mapping
from enum import StrEnum, unique
from typing import Any, Final


@unique
class Stage(StrEnum):
    """The checks in order of their cost; an answer names the violations of the first stage that fails."""

    SIZE = "size"
    CONTENT_TYPE = "content_type"
    ENCODING = "encoding"
    JSON = "json"
    ATTACHMENTS = "attachments"
    TOKENS = "tokens"


@unique
class Rule(StrEnum):
    """Everything the door can say no to, by the name clients, metrics and the refusal record use."""

    BODY_TOO_LARGE = "body_too_large"
    BODY_TOO_SLOW = "body_too_slow"
    BODY_BROKEN = "body_broken"

    UNSUPPORTED_CONTENT_TYPE = "unsupported_content_type"
    UNSUPPORTED_CONTENT_ENCODING = "unsupported_content_encoding"
    BROKEN_CONTENT_ENCODING = "broken_content_encoding"

    EMPTY = "empty"
    UNSUPPORTED_CHARSET = "unsupported_charset"
    CHARSET_MISMATCH = "charset_mismatch"
    CHARSET_UNDECLARED = "charset_undeclared"
    UNDECODABLE = "undecodable"
    INVALID_UTF8 = "invalid_utf8"
    BINARY = "binary"
    NUL = "nul"
    LOSSY_TEXT = "lossy_text"
    CONTROL_CHARACTERS = "control_characters"

    JSON_MALFORMED = "json_malformed"
    JSON_INVALID_UTF8 = "json_invalid_utf8"
    JSON_BOM = "json_bom"
    JSON_LONE_SURROGATE = "json_lone_surrogate"
    JSON_DUPLICATE_KEY = "json_duplicate_key"
    JSON_NESTING = "json_nesting"
    JSON_KEYS = "json_keys"
    JSON_INTEGER_RANGE = "json_integer_range"
    JSON_NUMBER_RANGE = "json_number_range"
    UNKNOWN_MEMBER = "unknown_member"
    MISSING_MEMBER = "missing_member"
    MEMBER_TYPE = "member_type"
    KIND_INVALID = "kind_invalid"
    ID_INVALID = "id_invalid"
    MULTIPART_MALFORMED = "multipart_malformed"

    TOO_MANY_ATTACHMENTS = "too_many_attachments"
    ATTACHMENT_TOO_LARGE = "attachment_too_large"
    ATTACHMENT_TYPE = "attachment_type"
    ATTACHMENT_CONTENT = "attachment_content"
    ATTACHMENT_MISMATCH = "attachment_mismatch"
    TOO_MANY_PARTS = "too_many_parts"

    TOO_MANY_TOKENS = "too_many_tokens"

    @property
    def stage(self) -> Stage:
        """The stage this rule belongs to."""
        return _STAGE[self]


_STAGE_BEGINS = {
    Rule.BODY_TOO_LARGE: Stage.SIZE,
    Rule.UNSUPPORTED_CONTENT_TYPE: Stage.CONTENT_TYPE,
    Rule.EMPTY: Stage.ENCODING,
    Rule.JSON_MALFORMED: Stage.JSON,
    Rule.TOO_MANY_ATTACHMENTS: Stage.ATTACHMENTS,
    Rule.TOO_MANY_TOKENS: Stage.TOKENS,
}


def _stages_in_order_of_definition() -> dict[Rule, Stage]:
    stages: dict[Rule, Stage] = {}
    stage = Stage.SIZE
    for rule in Rule:
        stage = _STAGE_BEGINS.get(rule, stage)
        stages[rule] = stage
    return stages


_STAGE = _stages_in_order_of_definition()


@unique
class Mode(StrEnum):
    """What becomes of an input that breaks a rule."""

    OFF = "off"
    """Nothing: it is admitted, and nobody counts it."""
    OBSERVE = "observe"
    """It is admitted, counted and marked."""
    ENFORCE = "enforce"
    """It is refused."""


SOFT: Final = frozenset(
    {
        Rule.CHARSET_UNDECLARED,
        Rule.LOSSY_TEXT,
        Rule.CONTROL_CHARACTERS,
        Rule.UNKNOWN_MEMBER,
        Rule.TOO_MANY_ATTACHMENTS,
        Rule.ATTACHMENT_TOO_LARGE,
        Rule.ATTACHMENT_TYPE,
        Rule.ATTACHMENT_MISMATCH,
        Rule.TOO_MANY_TOKENS,
    }
)
"""Rules that may be off or observed: what breaks only these is a ticket all the same, and no danger to the door."""

DEFAULTS: Final[Mapping[Rule, Mode]] = {
    rule: Mode.OBSERVE if rule is Rule.ATTACHMENT_MISMATCH else Mode.ENFORCE for rule in Rule
}
"""Browsers guess the type of a file from its name, so that a wrong one is no fault of the client's as a rule."""

_GUARDS: Final = frozenset(
    {
        Rule.BODY_TOO_LARGE,
        Rule.BODY_TOO_SLOW,
        Rule.BODY_BROKEN,
        Rule.UNSUPPORTED_CONTENT_ENCODING,
        Rule.BROKEN_CONTENT_ENCODING,
        Rule.JSON_NESTING,
        Rule.JSON_KEYS,
        Rule.TOO_MANY_PARTS,
    }
)
_STRICTNESS: Final = tuple(Mode)


def read(table: object) -> dict[Rule, Mode]:
    """Return the modes of a `[rules]` table; raises ValueError with one line for each mistake."""
    if not isinstance(table, Mapping):
        raise ValueError('write a table of rules, such as too_many_tokens = "observe"')  # noqa: TRY004 - one kind of mistake
    found: dict[Rule, Mode] = {}
    mistakes: list[str] = []
    for name, written in table.items():
        try:
            rule = Rule(name)
        except ValueError:
            mistakes.append(f"{name} is no rule; known are {', '.join(sorted(Rule))}")
            continue
        try:
            found[rule] = _mode(rule, written)
        except ValueError as error:
            mistakes.append(f"{name}: {error}")
    if mistakes:
        raise ValueError("\n".join(mistakes))
    return found


def softer(one: Mode, other: Mode) -> Mode:
    """Return the less strict of two modes."""
    return min(one, other, key=_STRICTNESS.index)


def _mode(rule: Rule, written: Any) -> Mode:
    try:
        mode = Mode(written)
    except ValueError:
        raise ValueError(f"write {', '.join(Mode)}") from None
    if mode is Mode.ENFORCE or rule in SOFT:
        return mode
    if rule in _GUARDS:
        raise ValueError("this rule protects the door itself and is always enforced")
    raise ValueError("what breaks this rule cannot be read as a ticket, so it is always enforced")
