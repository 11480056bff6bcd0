"""The stages run in order of cost, and the first that fails gives the answer."""

from __future__ import annotations

import gzip
import subprocess
import sys
import time

import pytest

from gateway.contract.kind_limits import KindLimits
from gateway.preflight import (
    Limits,
    OutOfTime,
    Passed,
    Refused,
    Rule,
    Stage,
    Submission,
    Vocabulary,
    examine,
)
from tests.unit.preflight.corpora import HOSTILE, ORDINARY

LIMITS = Limits()


def _refused(submission: Submission, vocabulary: Vocabulary, limits: Limits = LIMITS) -> Refused:
    verdict = examine(submission, limits, vocabulary)
    assert isinstance(verdict, Refused), verdict
    return verdict


def _text(body: bytes, content_type: str = "text/plain") -> Submission:
    return Submission(body=body, content_type=content_type, kind="k")


def test_a_good_ticket_passes_with_its_facts(vocabulary: Vocabulary) -> None:
    verdict = examine(_text("déjà".encode()), LIMITS, vocabulary)
    assert isinstance(verdict, Passed)
    facts = verdict.admission.facts
    assert (verdict.ticket.text, facts.bytes, facts.charset, verdict.admission.marked) == ("déjà", 6, "utf-8", ())


def test_the_size_is_judged_before_anything_is_read(vocabulary: Vocabulary) -> None:
    refused = _refused(_text(b"\xff" * 524_289, "nonsense"), vocabulary)
    assert refused.stage is Stage.SIZE
    assert (refused.violations[0].limit, refused.violations[0].actual) == (524_288, 524_289)


def test_an_encoding_that_fails_hides_what_could_only_be_judged_after_it(vocabulary: Vocabulary) -> None:
    refused = _refused(Submission(body=b"caf\xe9", content_type="text/plain"), vocabulary)
    assert (refused.stage, refused.violations[0].rule) == (Stage.ENCODING, Rule.UNDECODABLE)


def test_a_content_type_that_is_not_supported_comes_before_a_bad_kind(vocabulary: Vocabulary) -> None:
    refused = _refused(Submission(body=b"x", content_type="application/pdf", kind="NO KIND"), vocabulary)
    assert [violation.rule for violation in refused.violations] == [Rule.UNSUPPORTED_CONTENT_TYPE]
    refused = _refused(Submission(body=b"x", content_type="text/plain", kind="NO KIND"), vocabulary)
    assert [violation.rule for violation in refused.violations] == [Rule.KIND_INVALID]


@pytest.mark.parametrize(
    ("body", "content_type", "beside", "kind"),
    [
        (b'{"kind":"k","body":1}', "application/json", None, "k"),
        (b'{"kind":"k","body":"' + b"a b " * 50 + b'"}', "application/json", None, "k"),
        (b'{"kind":"NO","body":1}', "application/json", None, None),
        (b'{"body":1}', "application/json", "beside", "beside"),
        (b"not JSON", "application/json", "beside", "beside"),
        (b"a\0b", "text/plain", "beside", "beside"),
    ],
)
def test_a_refusal_knows_the_kind_where_a_valid_one_could_be_read(
    vocabulary: Vocabulary, body: bytes, content_type: str, beside: str | None, kind: str | None
) -> None:
    submission = Submission(body=body, content_type=content_type, kind=beside)
    assert _refused(submission, vocabulary, Limits(max_tokens=10)).facts.kind == kind


def test_all_violations_of_the_failing_stage_come_in_one_answer(vocabulary: Vocabulary) -> None:
    body = b'{"kind":"k","body":"x","attachments":[{"content":"xxxx"},{"content":"xxxx","content_type":"video/mp4"}]}'
    limits = Limits(max_attachment_bytes=3, max_attachments=2, attachment_types=("text/*", "image/png"))
    refused = _refused(Submission(body=body, content_type="application/json"), vocabulary, limits)
    assert refused.stage is Stage.ATTACHMENTS
    assert [(violation.rule, violation.pointer) for violation in refused.violations] == [
        (Rule.ATTACHMENT_TOO_LARGE, "/attachments/0"),
        (Rule.ATTACHMENT_TOO_LARGE, "/attachments/1"),
        (Rule.ATTACHMENT_TYPE, "/attachments/1/content_type"),
    ]


def test_a_text_over_the_token_cap_for_certain_is_refused(vocabulary: Vocabulary) -> None:
    refused = _refused(_text(ORDINARY["a log"].encode()), vocabulary, Limits(max_tokens=1_000))
    assert (refused.stage, refused.violations[0].unit) == (Stage.TOKENS, "tokens")


def test_a_count_whose_margin_holds_the_cap_is_admitted_and_marked(vocabulary: Vocabulary) -> None:
    text = HOSTILE["one letter"]
    tokens = len(vocabulary.encoding.encode(text))
    for cap, marked in ((tokens - 5, True), (tokens + 5, True), (tokens + 500, False)):
        verdict = examine(_text(text.encode()), Limits(max_tokens=cap), vocabulary)
        assert isinstance(verdict, Passed), cap
        assert bool(verdict.admission.marked) is marked, cap
    assert _refused(_text(text.encode()), vocabulary, Limits(max_tokens=tokens - 500)).stage is Stage.TOKENS


def test_attached_texts_count_and_attached_images_do_not(vocabulary: Vocabulary) -> None:
    limits = Limits(max_tokens=100)
    for content_type, passes in (("text/plain", False), ("image/png", True)):
        body = b'{"kind":"k","body":"x","attachments":[{"content_type":"%b","content_base64":"%b"}]}'
        submission = Submission(body=body % (content_type.encode(), b"YWIg" * 200), content_type="application/json")
        assert isinstance(examine(submission, limits, vocabulary), Passed) is passes


def test_a_coded_message_from_past_the_door_is_inflated_under_the_cap(vocabulary: Vocabulary) -> None:
    coded = Submission(body=gzip.compress(b"hello"), content_type="text/plain", kind="k", content_encoding="gzip")
    verdict = examine(coded, LIMITS, vocabulary)
    assert isinstance(verdict, Passed)
    assert verdict.ticket.text == "hello"
    for body, rule in (
        (gzip.compress(b"a" * 600_000, mtime=0), Rule.BODY_TOO_LARGE),
        (b"hello", Rule.BROKEN_CONTENT_ENCODING),
    ):
        coded = Submission(body=body, content_type="text/plain", kind="k", content_encoding="gzip")
        assert _refused(coded, vocabulary).violations[0].rule is rule
    coded = Submission(body=b"x", content_type="text/plain", kind="k", content_encoding="compress")
    assert _refused(coded, vocabulary).violations[0].rule is Rule.UNSUPPORTED_CONTENT_ENCODING


def test_a_charset_in_the_place_of_a_coding_is_taken_for_what_it_is(vocabulary: Vocabulary) -> None:
    submission = Submission(body="é".encode("cp1252"), content_type="text/plain", kind="k", content_encoding="latin1")
    verdict = examine(submission, LIMITS, vocabulary)
    assert isinstance(verdict, Passed)
    assert verdict.ticket.text == "é"


def test_a_passed_deadline_is_no_verdict_about_the_input(vocabulary: Vocabulary) -> None:
    assert examine(_text(b"fine"), LIMITS, vocabulary, deadline=time.monotonic() - 1) == OutOfTime()


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 524_288,
        b'{"a":' * 80_000,
        b'{"kind":"k","body":"x","attributes":[' + b"[]," * 99_000 + b"[]]}",
        b'{"kind":"k","body":"x","attachments":[' + b"{}," * 90_000 + b"{}]}",
        b'{"kind":"k","body":"' + b"\\u0041" * 80_000 + b'"}',
        b"\xff" * 524_288,
    ],
    ids=["brackets", "open objects", "arrays", "attachments", "escapes", "noise"],
)
def test_hostile_json_gets_an_answer(body: bytes, vocabulary: Vocabulary) -> None:
    assert isinstance(
        examine(Submission(body=body, content_type="application/json"), LIMITS, vocabulary), Refused | Passed
    )


def test_importing_the_preflight_loads_neither_server_nor_broker_client() -> None:
    program = (
        "import sys, gateway.preflight\n"
        "print([n for n in ('aiohttp', 'aio_pika', 'pydantic', 'gateway.settings', 'asyncio') if n in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


KINDS = Limits(
    max_body_bytes=1000,
    max_tokens=200,
    max_attachments=1,
    kinds={
        "logs": KindLimits(max_body_bytes=4000, max_tokens=5000),
        "short": KindLimits(max_body_bytes=100, max_attachments=0),
    },
)


@pytest.mark.parametrize(
    ("kind", "size", "rule"),
    [
        ("k", 150, None),
        ("k", 1001, Rule.BODY_TOO_LARGE),
        ("k", 900, Rule.TOO_MANY_TOKENS),
        ("logs", 4000, None),
        ("logs", 4001, Rule.BODY_TOO_LARGE),
        ("short", 100, None),
        ("short", 101, Rule.BODY_TOO_LARGE),
    ],
)
@pytest.mark.parametrize("beside", [True, False])
def test_a_kind_is_judged_by_its_own_limits_wherever_it_is_named(
    vocabulary: Vocabulary, kind: str, size: int, rule: Rule | None, *, beside: bool
) -> None:
    if beside:
        submission = Submission(body=b"ab " * (size // 3) + b"x" * (size % 3), content_type="text/plain", kind=kind)
    else:
        frame = b'{"kind":"%b","body":"' % kind.encode(), b'"}'
        filling = b"ab " * size
        submission = Submission(
            body=frame[0] + filling[: size - len(frame[0]) - len(frame[1])] + frame[1], content_type="application/json"
        )
    verdict = examine(submission, KINDS, vocabulary)
    found = verdict.violations[0].rule if isinstance(verdict, Refused) else None
    assert found is rule


def test_attachments_are_counted_by_kind_and_a_kind_nobody_knows_has_the_general_limits(vocabulary: Vocabulary) -> None:
    def refused(kind: str) -> bool:
        body = b'{"kind":"%b","body":"x","attachments":[{"content":"y"}]}' % kind.encode()
        return isinstance(examine(Submission(body=body, content_type="application/json"), KINDS, vocabulary), Refused)

    assert [refused(kind) for kind in ("short", "logs", "other")] == [True, False, False]
