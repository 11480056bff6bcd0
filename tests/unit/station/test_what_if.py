"""Under other limits a refusal passes, is refused, or cannot be judged: never a guess."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission import Admitted, AttachmentFacts, Facts, Limits, Mode, Refused, Rule, TokenCount, decide
from gateway.contract.rules import SOFT
from gateway.problem_document import violation_document
from gateway.refusals import Refusal, facts_document
from gateway.station.what_if import Fate, Judgement, Supposition, judge, suppose

WHOLE: dict[str, Any] = {
    "stage": "tokens",
    "whole": True,
    "limits": {"max_body_bytes": 1000, "max_tokens": 100, "max_attachments": 2},
    "tokens": [150, 150],
}
OVER = [{"rule": "too_many_tokens", "limit": 100, "actual": 150}]


@pytest.mark.parametrize(("limit", "fate"), [(149, Fate.REFUSED), (150, Fate.PASSES), (10**9, Fate.PASSES)])
def test_a_counted_text_passes_from_its_own_count_on(limit: int, fate: Fate) -> None:
    assert judge(OVER, 600, WHOLE, suppose([f"max_tokens={limit}"])).fate is fate


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (199, Judgement(fate=Fate.REFUSED)),
        (250, Judgement(fate=Fate.UNKNOWN, missing="tokens")),
        (600, Judgement(fate=Fate.PASSES)),
    ],
)
def test_where_counting_stopped_only_its_bounds_are_known(limit: int, expected: Judgement) -> None:
    facts = {**WHOLE, "tokens": [200, 600]}
    assert judge(OVER, 600, facts, suppose([f"max_tokens={limit}"])) == expected


def test_what_no_limit_changes_is_refused_whatever_is_supposed() -> None:
    broken = [{"rule": "json_malformed"}]
    assert judge(broken, 10, None, suppose(["max_tokens=9"])).fate is Fate.REFUSED


def test_a_body_that_was_never_read_cannot_be_judged_but_its_declared_length_can() -> None:
    broken = [{"rule": "body_too_large", "limit": 1000, "actual": 5000}]
    facts = {"stage": "size", "whole": False, "limits": WHOLE["limits"]}
    assert judge(broken, 5000, facts, suppose(["max_body_bytes=4KiB"])).fate is Fate.REFUSED
    assert judge(broken, 5000, facts, suppose(["max_body_bytes=1MiB"])) == Judgement(fate=Fate.UNKNOWN, missing="body")


def test_checks_that_never_ran_are_missing_facts() -> None:
    broken = [{"rule": "lossy_text"}]
    facts = {"stage": "encoding", "whole": True, "limits": WHOLE["limits"]}
    assert judge(broken, 10, facts, suppose(["lossy_text=off"])) == Judgement(
        fate=Fate.UNKNOWN, missing="checks after the first that failed"
    )
    assert judge(broken, 10, facts, suppose(["control_characters=off"])).fate is Fate.REFUSED


def test_attachments_that_nobody_looked_at_are_a_missing_fact() -> None:
    broken = [{"rule": "too_many_attachments", "limit": 2, "actual": 5}]
    facts = {"stage": "attachments", "whole": True, "limits": WHOLE["limits"]}
    assert judge(broken, 10, facts, suppose(["max_attachments=4"])).fate is Fate.REFUSED
    assert judge(broken, 10, facts, suppose(["max_attachments=5"])) == Judgement(
        fate=Fate.UNKNOWN, missing="attachments"
    )
    seen = {**facts, "attachments": 5, "files": [["text/plain", 2, None]] * 5}
    assert judge(broken, 10, seen, suppose(["max_attachments=5"])).fate is Fate.PASSES
    assert judge(broken, 10, seen, suppose(["max_attachments=5", "max_tokens=5"])) == Judgement(
        fate=Fate.UNKNOWN, missing="tokens"
    )


@pytest.mark.parametrize(
    ("violations", "facts"),
    [([], WHOLE), (["odd"], WHOLE), ([{"rule": "of another version"}], WHOLE), (OVER, None), (OVER, {"limits": 3})],
    ids=["none", "no table", "unknown rule", "no facts", "odd facts"],
)
def test_records_without_what_is_needed_are_not_judged(violations: list[Any], facts: dict[str, Any] | None) -> None:
    assert judge(violations, 10, facts, suppose(["max_tokens=999"])).fate is Fate.UNKNOWN


@pytest.mark.parametrize(
    "written", ["max_tokens", "max_tokens=-1", "max_tokens=x", "max_pages=2", "empty=off", "lossy_text=perhaps"]
)
def test_a_supposition_that_means_nothing_is_an_error(written: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        suppose([written])


def _refusal(verdict: Refused) -> Refusal:
    return Refusal(
        request_id="r",
        client="c",
        address="",
        kind="k",
        said_kind=None,
        status=422,
        violations=[violation_document(violation) for violation in verdict.violations],
        stage=verdict.stage,
        facts=verdict.facts,
        size=verdict.facts.bytes,
        body=b"x" * verdict.facts.bytes,
        content_type="text/plain",
    )


CAPS = st.tuples(st.integers(1, 300), st.integers(1, 400))


def _limits(caps: tuple[int, int], modes: Mapping[Rule, Mode]) -> Limits:
    size, tokens = caps
    return Limits(max_body_bytes=size, max_attachment_bytes=size, max_tokens=tokens, max_attachments=2, rules=modes)


@given(
    size=st.integers(1, 300),
    files=st.lists(st.integers(0, 100), max_size=5),
    then=CAPS,
    supposed=CAPS,
    off=st.sets(st.sampled_from(sorted(SOFT))),
)
def test_it_never_says_what_the_door_would_not_have_decided(
    size: int, files: list[int], then: tuple[int, int], supposed: tuple[int, int], off: set[Rule]
) -> None:
    attachments = tuple(AttachmentFacts(name="a", content_type="text/plain", bytes=one) for one in files)
    count = TokenCount(tokens=size, at_least=size, at_most=size)
    facts = Facts(bytes=size, attachments=attachments, tokens=count)
    verdict = decide(facts, _limits(then, {}))
    if isinstance(verdict, Admitted):
        return
    refusal = _refusal(verdict)
    modes = dict.fromkeys(off, Mode.OFF)
    supposition = Supposition(limits={"max_body_bytes": supposed[0], "max_tokens": supposed[1]}, modes=modes)
    found = judge(refusal.violations, size, facts_document(refusal, _limits(then, {})), supposition)
    if found.fate is not Fate.UNKNOWN:
        assert (found.fate is Fate.PASSES) is isinstance(decide(facts, _limits(supposed, modes)), Admitted)
