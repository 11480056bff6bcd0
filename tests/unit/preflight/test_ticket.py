"""One ticket, three forms, one reading: what a client may write, and what it is told when it is wrong."""

from __future__ import annotations

import gzip

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission import Limits, Rule
from gateway.preflight.encoding import CharsetSource
from gateway.preflight.ticket import Reading, Submission, Ticket, parse_ticket

LIMITS = Limits()


def _json(value: object, *, kind: str | None = None) -> Reading:
    return parse_ticket(Submission(body=orjson.dumps(value), content_type="application/json", kind=kind), LIMITS)


def _rules(reading: Reading) -> set[tuple[Rule, str]]:
    assert reading.ticket is None
    return {(finding.rule, finding.pointer) for finding in reading.findings}


def test_a_full_json_ticket_is_read() -> None:
    reading = _json(
        {
            "kind": "support.ticket",
            "id": "9417",
            "subject": "Принтер",
            "body": "It prints 👍 only.",
            "attributes": {"plan": "gold", "seats": [1, 2]},
            "attachments": [
                {"name": "a.log", "content": "line"},
                {"name": "b.png", "content_type": "image/png", "content_base64": "iVBORw=="},
            ],
        },
    )
    ticket = reading.ticket
    assert ticket is not None
    assert (ticket.kind, ticket.id, ticket.subject, ticket.text) == (
        "support.ticket", "9417", "Принтер", "It prints 👍 only.",
    )  # fmt: skip
    assert ticket.attributes == {"plan": "gold", "seats": [1, 2]}
    assert [(a.name, a.content_type, a.content, a.text) for a in ticket.attachments] == [
        ("a.log", "text/plain; charset=utf-8", b"line", "line"),
        ("b.png", "image/png", b"\x89PNG", None),
    ]
    assert (reading.charset, reading.charset_source) == ("utf-8", CharsetSource.FORMAT)
    assert ticket.texts() == ("Принтер", "It prints 👍 only.", '{"plan":"gold","seats":[1,2]}', "line")


@pytest.mark.parametrize(
    ("value", "offence"),
    [
        ([], (Rule.MEMBER_TYPE, "")),
        ({"kind": "a", "body": "x", "bodi": 1}, (Rule.UNKNOWN_MEMBER, "")),
        ({"kind": "a"}, (Rule.MISSING_MEMBER, "/body")),
        ({"body": "x"}, (Rule.MISSING_MEMBER, "/kind")),
        ({"kind": "a", "body": ""}, (Rule.EMPTY, "/body")),
        ({"kind": "a", "body": 1}, (Rule.MEMBER_TYPE, "/body")),
        ({"kind": "A", "body": "x"}, (Rule.KIND_INVALID, "/kind")),
        ({"kind": "a" * 65, "body": "x"}, (Rule.KIND_INVALID, "/kind")),
        ({"kind": "a\n", "body": "x"}, (Rule.KIND_INVALID, "/kind")),
        ({"kind": "a", "body": "x", "id": "no blanks"}, (Rule.ID_INVALID, "/id")),
        ({"kind": "a", "body": "x", "subject": "a\0b"}, (Rule.NUL, "/subject")),
        ({"kind": "a", "body": "a\0b"}, (Rule.NUL, "/body")),
        ({"kind": "a", "body": "x", "attributes": {"k": [{"\0": 1}]}}, (Rule.NUL, "/attributes")),
        ({"kind": "a", "body": "x", "attributes": []}, (Rule.MEMBER_TYPE, "/attributes")),
        ({"kind": "a", "body": "\ufffd" * 50}, (Rule.LOSSY_TEXT, "/body")),
        ({"kind": "a", "body": "x", "attachments": {}}, (Rule.MEMBER_TYPE, "/attachments")),
        ({"kind": "a", "body": "x", "attachments": [1]}, (Rule.MEMBER_TYPE, "/attachments/0")),
        ({"kind": "a", "body": "x", "attachments": [{}]}, (Rule.ATTACHMENT_CONTENT, "/attachments/0")),
        (
            {"kind": "a", "body": "x", "attachments": [{"content": "", "content_base64": ""}]},
            (Rule.ATTACHMENT_CONTENT, "/attachments/0"),
        ),
        (
            {"kind": "a", "body": "x", "attachments": [{"content": "", "path": "/etc"}]},
            (Rule.UNKNOWN_MEMBER, "/attachments/0"),
        ),
        (
            {"kind": "a", "body": "x", "attachments": [{"content": "x"}] * 11},
            (Rule.TOO_MANY_ATTACHMENTS, "/attachments"),
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_member_is_said_with_its_place(value: object, offence: tuple[Rule, str]) -> None:
    assert offence in _rules(_json(value))


def test_all_that_is_wrong_is_said_at_once() -> None:
    assert _rules(_json({"kind": "NO", "id": "", "body": 1, "x": 2})) == {
        (Rule.UNKNOWN_MEMBER, ""),
        (Rule.MEMBER_TYPE, "/body"),
        (Rule.ID_INVALID, "/id"),
        (Rule.KIND_INVALID, "/kind"),
    }


def test_unknown_members_are_named_but_only_the_first_ten_and_shortened() -> None:
    reading = _json({"kind": "a", "body": "x", **{f"secret{'x' * 500}{number}": "value" for number in range(50)}})
    assert len(reading.findings) == 10
    assert all(len(finding.message) < 250 for finding in reading.findings)
    assert '"secretxxx' in reading.findings[0].message


def test_null_members_count_as_left_out() -> None:
    reading = _json(
        {"kind": None, "id": None, "subject": None, "body": "x", "attributes": None, "attachments": None}, kind="k"
    )
    assert reading.ticket == Ticket(kind="k", text="x")


def test_the_kind_may_stand_beside_the_body_but_not_contradict_it() -> None:
    assert _json({"body": "x"}, kind="a.b").ticket == Ticket(kind="a.b", text="x")
    assert _rules(_json({"kind": "a", "body": "x"}, kind="b")) == {(Rule.KIND_INVALID, "/kind")}
    assert _rules(_json({"body": "x"}, kind="No Kind")) == {(Rule.KIND_INVALID, "")}


@given(
    kind=st.sampled_from(["k", "support.ticket", "K", "", "k\n"]),
    beside=st.none() | st.sampled_from(["k", "other"]),
    text=st.sampled_from(["", "plain", "schön", "a\\b", "a\tb", "a\0b", "\x7f", '"', "\ufffd" * 20])
    | st.text(max_size=20),
    subject=st.none() | st.sampled_from(["", "plain", "schön", "\x7f" * 40, "\x85"]),
)
def test_a_glance_finds_what_a_close_look_does(kind: str, beside: str | None, text: str, subject: str | None) -> None:
    members = {"kind": kind, "body": text, **({} if subject is None else {"subject": subject})}

    def read(**more: None) -> Reading:
        return parse_ticket(
            Submission(body=orjson.dumps({**members, **more}), content_type="application/json", kind=beside), Limits()
        )

    assert read() == read(id=None)  # a member that counts as left out, and calls for a close look


def test_json_in_another_charset_is_not_supported() -> None:
    for content_type, supported in (("utf-8", True), ("US-ASCII", True), ("utf-16", False), ("koi8-r", False)):
        submission = Submission(
            body=b'{"kind":"a","body":"x"}', content_type=f"application/json; charset={content_type}"
        )
        reading = parse_ticket(submission, LIMITS)
        assert (reading.ticket is not None) is supported


def test_text_is_a_ticket_of_the_kind_named_beside_it() -> None:
    body = "déjà vu".encode("cp1252")
    reading = parse_ticket(Submission(body=body, content_type="text/plain; charset=latin1", kind="k"), LIMITS)
    assert reading.ticket == Ticket(kind="k", text="déjà vu")
    assert (reading.charset, reading.charset_source) == ("cp1252", CharsetSource.DECLARED)


def test_text_without_a_kind_is_refused() -> None:
    reading = parse_ticket(Submission(body=b"x", content_type="text/plain"), LIMITS)
    assert _rules(reading) == {(Rule.MISSING_MEMBER, "/kind")}


def test_a_charset_found_before_is_used_where_none_is_declared() -> None:
    body = "Сервер".encode("koi8-r")
    reading = parse_ticket(Submission(body=body, content_type="text/plain", kind="k", charset="koi8_r"), LIMITS)
    assert reading.ticket == Ticket(kind="k", text="Сервер")


@pytest.mark.parametrize(
    "content_type", [None, "application/octet-stream", "image/png", "nonsense", "a/b; c", "application/xml"]
)
def test_other_content_types_are_refused_naming_what_is_supported(content_type: str | None) -> None:
    reading = parse_ticket(Submission(body=b"x", content_type=content_type, kind="k"), LIMITS)
    assert _rules(reading) == {(Rule.UNSUPPORTED_CONTENT_TYPE, "")}
    assert "multipart/form-data" in reading.findings[0].message


def test_bytes_without_a_type_from_past_the_door_are_read_as_text() -> None:
    for content_type in (None, "application/octet-stream"):
        submission = Submission(
            body="\ufeffhello".encode("utf-16-le"), content_type=content_type, kind="k", opaque_as_text=True
        )
        assert parse_ticket(submission, LIMITS).ticket == Ticket(kind="k", text="hello")


def _multipart(*parts: tuple[str, bytes], kind: str | None = None) -> Reading:
    body = b"".join(
        b"--b\r\nContent-Disposition: form-data; " + head.encode() + b"\r\n\r\n" + content + b"\r\n"
        for head, content in parts
    )
    submission = Submission(body=body + b"--b--\r\n", content_type='multipart/form-data; boundary="b"', kind=kind)
    return parse_ticket(submission, LIMITS)


def test_a_multipart_ticket_is_its_json_part_with_the_rest_attached() -> None:
    reading = _multipart(
        (
            'name="ticket"\r\nContent-Type: application/json',
            b'{"kind":"k","body":"see","attachments":[{"content":"1"}]}',
        ),
        ('name="file"; filename="a/b.bin"', b"\0\1"),
        ('name="note"', b"text"),
    )
    assert reading.ticket is not None
    assert [(a.name, a.content, a.text) for a in reading.ticket.attachments] == [
        ("attachment-1", b"1", "1"),
        ("b.bin", b"\0\1", None),
        ("note", b"text", "text"),
    ]
    assert len(reading.attachments) == 3


def test_a_multipart_body_is_text_in_the_charset_of_its_part() -> None:
    reading = _multipart(
        ('name="body"\r\nContent-Type: text/plain; charset=cp1251', "Привет".encode("cp1251")), kind="k"
    )
    assert reading.ticket == Ticket(kind="k", text="Привет")


def test_an_unknown_charset_in_one_field_is_refused_with_its_place() -> None:
    reading = _multipart(('name="body"', b"x"), ('name="n"\r\nContent-Type: text/plain; charset=x-foo', b"y"), kind="k")
    assert _rules(reading) == {(Rule.UNSUPPORTED_CHARSET, "/attachments/0")}


def test_a_multipart_ticket_has_exactly_one_leading_part() -> None:
    file = ('name="f"; filename="ticket"', b"x")
    for parts in ([file], [('name="body"', b"x"), ('name="ticket"', b"{}")], [('name="body"', b"x")] * 2):
        assert _rules(_multipart(*parts, kind="k")) == {(Rule.MULTIPART_MALFORMED, "")}


def test_too_many_parts_are_counted_and_not_read() -> None:
    reading = _multipart(('name="body"', b"x"), *[('name="f"; filename="f"', b"x")] * 11, kind="k")
    assert _rules(reading) == {(Rule.TOO_MANY_ATTACHMENTS, "/attachments")}
    assert (reading.findings[0].limit, reading.findings[0].actual) == (10, 11)


@given(
    st.binary(max_size=200) | st.binary(max_size=100).map(gzip.compress),
    st.sampled_from(
        [None, "application/json", "text/plain", "text/html; charset=gbk", "multipart/form-data; boundary=b"]
    )
    | st.text(max_size=30),
    st.none() | st.text(max_size=5),
)
def test_no_input_ever_raises(body: bytes, content_type: str | None, kind: str | None) -> None:
    reading = parse_ticket(Submission(body=body, content_type=content_type, kind=kind), LIMITS)
    assert (reading.ticket is None) == bool(reading.findings)
