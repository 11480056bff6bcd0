"""The decision is a function of facts and limits, and refuses only what is over a limit for certain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission import (
    Admitted,
    AttachmentFacts,
    Confidence,
    Facts,
    Limits,
    Refused,
    Rule,
    Stage,
    TokenCount,
    Violation,
    decide,
)

LIMITS = Limits(max_body_bytes=100, max_tokens=10, max_attachments=1, max_attachment_bytes=5)


def _tokens(at_least: int, tokens: int, at_most: int) -> Facts:
    return Facts(bytes=1, tokens=TokenCount(at_least=at_least, tokens=tokens, at_most=at_most))


def test_every_rule_belongs_to_the_stage_its_name_says() -> None:
    assert Rule.BODY_BROKEN.stage is Stage.SIZE
    assert Rule.BROKEN_CONTENT_ENCODING.stage is Stage.CONTENT_TYPE
    assert Rule.CONTROL_CHARACTERS.stage is Stage.ENCODING
    assert Rule.MULTIPART_MALFORMED.stage is Stage.JSON
    assert Rule.ATTACHMENT_CONTENT.stage is Stage.ATTACHMENTS
    assert Rule.TOO_MANY_TOKENS.stage is Stage.TOKENS
    assert {rule.stage for rule in Rule} == set(Stage)


def test_what_is_exactly_at_each_limit_is_admitted() -> None:
    attachment = AttachmentFacts(name="a", content_type="image/png", bytes=5)
    tokens = TokenCount(tokens=10, at_least=10, at_most=10)
    facts = Facts(bytes=100, attachments=(attachment,), tokens=tokens)
    assert decide(facts, LIMITS) == Admitted(facts=facts)


@pytest.mark.parametrize(
    ("facts", "marked"),
    [
        (_tokens(10, 10, 10), False),
        (_tokens(9, 11, 12), True),
        (_tokens(10, 10, 11), True),
    ],
)
def test_an_estimate_is_marked_only_when_the_cap_lies_inside_it(facts: Facts, *, marked: bool) -> None:
    verdict = decide(facts, LIMITS)
    assert isinstance(verdict, Admitted)
    assert (Rule.TOO_MANY_TOKENS in verdict.marked) is marked


def test_a_lower_bound_over_the_cap_is_refused_as_an_estimate() -> None:
    verdict = decide(_tokens(11, 12, 90), LIMITS)
    assert isinstance(verdict, Refused)
    assert verdict.violations[0].confidence is Confidence.ESTIMATE
    exact = decide(_tokens(11, 11, 11), LIMITS)
    assert isinstance(exact, Refused)
    assert exact.violations[0].confidence is Confidence.EXACT


def test_only_the_first_failing_stage_is_reported_and_all_of_it() -> None:
    offences = tuple(
        Violation(rule=rule, message="") for rule in (Rule.JSON_MALFORMED, Rule.NUL, Rule.UNKNOWN_MEMBER, Rule.EMPTY)
    )
    verdict = decide(Facts(bytes=1, findings=offences), LIMITS)
    assert isinstance(verdict, Refused)
    assert (verdict.stage, [violation.rule for violation in verdict.violations]) == (
        Stage.ENCODING, [Rule.NUL, Rule.EMPTY],
    )  # fmt: skip


@given(st.integers(0, 200), st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.integers(0, 3))
def test_nothing_within_the_limits_is_refused_and_nothing_over_them_admitted(
    size: int, low: int, more: int, attached: int, count: int
) -> None:
    attachment = AttachmentFacts(name="a", content_type="text/plain", bytes=attached)
    facts = Facts(
        bytes=size,
        tokens=TokenCount(tokens=low, at_least=low, at_most=low + more),
        attachments=(attachment,) * count,
    )
    certain = size > 100 or low > 10 or count > 1 or (count > 0 and attached > 5)
    assert isinstance(decide(facts, LIMITS), Refused) is certain
