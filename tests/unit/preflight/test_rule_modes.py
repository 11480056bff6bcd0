"""A rule that is off or observed keeps nothing out, and what it lets in is a whole ticket (G6)."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission import Facts, Mode, TokenCount, decide
from gateway.contract.kind_limits import KindLimits
from gateway.contract.rules import SOFT
from gateway.preflight import Limits, Passed, Refused, Rule, Submission, Violation, Vocabulary, examine

JSON = "application/json"
LEGACY = "Грузинский документ: ".encode("cp1251") * 20
BROKEN: Mapping[Rule, Submission] = {
    Rule.CHARSET_UNDECLARED: Submission(body=LEGACY, content_type="text/plain", kind="k"),
    Rule.LOSSY_TEXT: Submission(body=("\ufffd" * 40 + "x").encode(), content_type="text/plain", kind="k"),
    Rule.CONTROL_CHARACTERS: Submission(body=b"8=FIX\x01" * 40, content_type="text/plain; charset=utf-8", kind="k"),
    Rule.UNKNOWN_MEMBER: Submission(
        body=b'{"kind":"k","body":"hi","colour":1,"attachments":[{"name":"a","content":"x","size":1}]}',
        content_type=JSON,
    ),
    Rule.TOO_MANY_ATTACHMENTS: Submission(
        body=b'{"kind":"k","body":"hi","attachments":[{"content":"a"},{"content":"b"},{"content":"c"}]}',
        content_type=JSON,
    ),
    Rule.ATTACHMENT_TOO_LARGE: Submission(
        body=b'{"kind":"k","body":"hi","attachments":[{"content":"%s"}]}' % (b"a" * 50), content_type=JSON
    ),
    Rule.ATTACHMENT_TYPE: Submission(
        body=b'{"kind":"k","body":"hi","attachments":[{"content":"a","content_type":"image/svg+xml"}]}',
        content_type=JSON,
    ),
    Rule.ATTACHMENT_MISMATCH: Submission(
        body=b'{"kind":"k","body":"hi","attachments":[{"content":"a","content_type":"text/x"},'
        b'{"content_base64":"JVBERi0xLjc=","content_type":"text/plain"}]}',
        content_type=JSON,
    ),
    Rule.TOO_MANY_TOKENS: Submission(body=b"one two three four " * 20, content_type="text/plain", kind="k"),
}
LIMITS = Limits(
    max_tokens=60,
    max_attachments=2,
    max_attachment_bytes=20,
    attachment_types=("text/*",),
    rules={Rule.ATTACHMENT_MISMATCH: Mode.ENFORCE, Rule.CHARSET_UNDECLARED: Mode.ENFORCE},
)
WIDE = {Rule.CHARSET_UNDECLARED: 10_000, Rule.LOSSY_TEXT: 10_000, Rule.CONTROL_CHARACTERS: 10_000}


def _limits(rule: Rule, mode: Mode) -> Limits:
    return replace(LIMITS, max_tokens=WIDE.get(rule, LIMITS.max_tokens), rules={**LIMITS.rules, rule: mode})


def test_there_is_an_example_for_every_soft_rule() -> None:
    assert BROKEN.keys() == SOFT


@pytest.mark.parametrize("rule", sorted(BROKEN))
def test_enforced_it_refuses(rule: Rule, vocabulary: Vocabulary) -> None:
    verdict = examine(BROKEN[rule], _limits(rule, Mode.ENFORCE), vocabulary)
    assert isinstance(verdict, Refused)
    assert {violation.rule for violation in verdict.violations} == {rule}


@pytest.mark.parametrize("rule", sorted(BROKEN))
def test_observed_it_admits_and_tells_what_it_would_have_refused(rule: Rule, vocabulary: Vocabulary) -> None:
    verdict = examine(BROKEN[rule], _limits(rule, Mode.OBSERVE), vocabulary)
    assert isinstance(verdict, Passed)
    assert {violation.rule for violation in verdict.admission.observed} == {rule}
    assert verdict.admission.rules == (rule.value,)
    assert verdict.ticket.text
    refused = examine(BROKEN[rule], _limits(rule, Mode.ENFORCE), vocabulary)
    assert isinstance(refused, Refused)
    assert verdict.admission.observed[: len(refused.violations)] == refused.violations


@pytest.mark.parametrize("rule", sorted(BROKEN))
def test_off_it_admits_and_says_nothing(rule: Rule, vocabulary: Vocabulary) -> None:
    verdict = examine(BROKEN[rule], _limits(rule, Mode.OFF), vocabulary)
    assert isinstance(verdict, Passed)
    assert (verdict.admission.observed, verdict.admission.rules) == ((), ())


@pytest.mark.parametrize("rule", sorted(BROKEN))
@pytest.mark.parametrize("mode", [Mode.OFF, Mode.OBSERVE])
def test_a_kind_of_its_own_mind_changes_nothing_for_others(rule: Rule, mode: Mode, vocabulary: Vocabulary) -> None:
    strict = _limits(rule, Mode.ENFORCE)
    other = replace(strict, kinds={"other": KindLimits(rules={rule: mode})})
    assert isinstance(examine(BROKEN[rule], other, vocabulary), Refused)
    own = replace(strict, kinds={"k": KindLimits(rules={rule: mode})})
    assert isinstance(examine(BROKEN[rule], own, vocabulary), Passed)


def test_attachments_of_which_no_number_is_enforced_are_still_bounded(vocabulary: Vocabulary) -> None:
    many = b",".join([b'{"content":"a"}'] * 1001)
    submission = Submission(body=b'{"kind":"k","body":"x","attachments":[%s]}' % many, content_type=JSON)
    verdict = examine(submission, _limits(Rule.TOO_MANY_ATTACHMENTS, Mode.OFF), vocabulary)
    assert isinstance(verdict, Refused)
    assert [violation.rule for violation in verdict.violations] == [Rule.TOO_MANY_PARTS]


def test_control_characters_in_an_attachment_lose_nothing_of_it(vocabulary: Vocabulary) -> None:
    body = b'{"kind":"k","body":"x","attachments":[{"content":"%s"}]}' % (b"\\u0001" * 40)
    limits = Limits(rules={Rule.CONTROL_CHARACTERS: Mode.OBSERVE})
    verdict = examine(Submission(body=body, content_type=JSON), limits, vocabulary)
    assert isinstance(verdict, Passed)
    assert verdict.ticket.attachments[0].content == b"\x01" * 40
    assert [violation.pointer for violation in verdict.admission.observed] == ["/attachments/0/content"]


def test_a_text_over_its_cap_is_counted_on_to_twice_the_cap(vocabulary: Vocabulary) -> None:
    body = b"one two three four " * 20_000
    submission = Submission(body=body, content_type="text/plain", kind="k")
    exact = examine(submission, Limits(max_tokens=50_000), vocabulary)
    assert isinstance(exact, Refused)
    assert exact.facts.tokens is not None
    assert exact.facts.tokens.exact
    stopped = examine(submission, Limits(max_tokens=10_000), vocabulary)
    assert isinstance(stopped, Refused)
    assert stopped.facts.tokens is not None
    assert 20_000 < stopped.facts.tokens.at_least < 20_000 + 16_384
    assert stopped.facts.tokens.at_most >= exact.facts.tokens.tokens


@given(
    st.dictionaries(st.sampled_from(sorted(SOFT)), st.sampled_from(Mode)),
    st.sets(st.sampled_from(sorted(Rule))),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_what_is_refused_is_just_what_breaks_an_enforced_rule(
    modes: dict[Rule, Mode], broken: set[Rule], low: int, more: int
) -> None:
    limits = Limits(max_tokens=10, rules=modes)
    findings = tuple(Violation(rule=rule, message="") for rule in sorted(broken - {Rule.TOO_MANY_TOKENS}))
    facts = Facts(bytes=1, findings=findings, tokens=TokenCount(tokens=low, at_least=low, at_most=low + more))
    all_broken = (broken - {Rule.TOO_MANY_TOKENS}) | ({Rule.TOO_MANY_TOKENS} if low > 10 else set())
    verdict = decide(facts, limits)
    enforced = {rule for rule in all_broken if limits.mode(rule) is Mode.ENFORCE}
    assert isinstance(verdict, Refused) is bool(enforced)
    if isinstance(verdict, Refused):
        assert {violation.rule for violation in verdict.violations} <= enforced
    else:
        observed = {rule for rule in all_broken if limits.mode(rule) is Mode.OBSERVE}
        assert {violation.rule for violation in verdict.observed} == observed
        assert all(limits.mode(rule) is not Mode.OFF for rule in verdict.marked)
