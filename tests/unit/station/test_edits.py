"""A held body with something in it changed: what is not named stays, and what does not fit is refused in words."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contract.text import TRUNCATION_MARK
from gateway.station.edits import MAX_DIFFERENCE, Edit, Edited, NotEditable, apply, difference

TICKET = b'{"kind": "k", "body": "old", "attributes": {"a": 1}, "attachments": [], "big": 12345678901234567890123}'
JSON_TYPE = "application/json"


def test_members_of_a_json_ticket_are_replaced_and_all_others_stay() -> None:
    edited = apply(TICKET, JSON_TYPE, Edit(text="new ü", subject="s", attributes={"b": [2]}))
    assert json.loads(edited.body) == {**json.loads(TICKET), "body": "new ü", "subject": "s", "attributes": {"b": [2]}}
    assert edited.content_type == JSON_TYPE


@given(text=st.text())
def test_a_text_becomes_utf_8_whatever_charset_it_had(text: str) -> None:
    edited = apply("alt".encode("utf-16"), "text/markdown; charset=utf-16", Edit(text=text))
    assert edited == Edited(body=text.encode(), content_type="text/markdown; charset=utf-8")


@given(body=st.binary())
def test_a_whole_body_is_taken_byte_by_byte(body: bytes) -> None:
    assert apply(b"x", "text/plain", Edit(body=body)) == Edited(body=body, content_type="text/plain")
    typed = Edit(body=body, content_type="application/json")
    assert apply(b"x", None, typed) == Edited(body=body, content_type="application/json")


@pytest.mark.parametrize(
    ("body", "content_type", "edit", "said"),
    [
        (b"\x89PNG", "image/png", Edit(text="t"), "can only be edited as a whole"),
        (b"x", None, Edit(text="t"), "can only be edited as a whole"),
        (b"x", "multipart/form-data; boundary=b", Edit(text="t"), "can only be edited as a whole"),
        (b"x", "text/plain", Edit(subject="s"), "no subject"),
        (b"[1]", JSON_TYPE, Edit(text="t"), "no JSON object"),
        (b"{", JSON_TYPE, Edit(text="t"), "no JSON that can be read"),
        (b"[" * 100_000, JSON_TYPE, Edit(text="t"), "no JSON that can be read"),
        (TICKET, JSON_TYPE, Edit(text="t", body=b"x"), "not both"),
    ],
    ids=["image", "untyped", "multipart", "subject", "array", "broken", "deep", "both"],
)
def test_an_edit_that_does_not_fit_is_refused_in_words(
    body: bytes, content_type: str | None, edit: Edit, said: str
) -> None:
    with pytest.raises(NotEditable, match=said):
        apply(body, content_type, edit)


def test_an_edit_that_names_nothing_is_empty() -> None:
    assert Edit().is_empty
    assert not Edit(text="").is_empty


def test_the_difference_shows_lines_and_the_charset_that_the_door_had_measured_reads_the_old_ones() -> None:
    before = "eins\nzwei ü\ndrei\n".encode("cp1252")
    after = Edited(body="eins\nzwo ü\ndrei\n".encode(), content_type="text/plain; charset=utf-8")
    told = difference(before, after, was="text/plain", charset="cp1252")
    assert "-zwei ü\n+zwo ü\n" in told
    assert "content type: text/plain -> text/plain; charset=utf-8" in told
    assert " eins\n" in told


def test_the_difference_of_json_is_of_its_members_and_of_other_bytes_their_sizes() -> None:
    edited = apply(TICKET, JSON_TYPE, Edit(text="new"))
    told = difference(TICKET, edited, was=JSON_TYPE)
    assert '- "body": "old",\n+ "body": "new",\n' in told
    other = difference(b"\xff\xfe", Edited(body=b"abc", content_type="image/png"), was="image/png")
    assert other == "2 bytes -> 3 bytes, not shown line by line\n"


@given(before=st.binary(max_size=200), after=st.binary(max_size=200))
def test_every_difference_can_be_stored(before: bytes, after: bytes) -> None:
    told = difference(before, Edited(body=after, content_type="text/plain; charset=latin-1"), was="text/plain")
    assert "\x00" not in told
    told.encode()


def test_a_difference_that_is_too_long_says_that_it_was_cut() -> None:
    after = Edited(body=b"x\n" * MAX_DIFFERENCE, content_type="text/plain")
    assert difference(b"", after, was="text/plain").startswith("0 bytes")
    told = difference(b"", Edited(body=b"x" * 2 * MAX_DIFFERENCE, content_type="text/plain"), was="text/plain")
    assert told.endswith(TRUNCATION_MARK)
    assert len(told.encode()) <= MAX_DIFFERENCE
