"""Contents leave a body, references stand in their place, and nothing else of it changes (G13, decision 8)."""

import base64
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission import Limits, Mode
from gateway.contract.ids import TicketId
from gateway.contract.references import folder_of
from gateway.preflight.attachments import Attachment, fetched
from gateway.preflight.ticket import Submission, Ticket, parse_ticket
from gateway.preflight.withdrawal import Withdrawal, withdraw

LIMITS = Limits(max_attachments=100).softened(Mode.OFF)
BOUNDARY = "a b"
MULTIPART = f'multipart/form-data; boundary="{BOUNDARY}"'
JSON = "application/json"

_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=60)
_ATTACHED = st.one_of(
    st.fixed_dictionaries({"content": _TEXT}, optional={"name": _TEXT}),
    st.fixed_dictionaries({"content_base64": st.binary(max_size=60)}, optional={"name": _TEXT, "content": st.none()}),
)
_VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), _TEXT
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXT, inner, max_size=3)),
    max_leaves=8,
)


def _parsed(body: bytes, content_type: str, folder: str = "") -> Ticket:
    submission = Submission(body=body, content_type=content_type, kind="k", folder=folder)
    ticket = parse_ticket(submission, LIMITS).ticket
    assert ticket is not None
    return ticket


def _json_body(attached: list[dict[str, Any]], attributes: Any, indent: int | None, *, ascii_only: bool) -> bytes:
    listed = [
        {name: base64.b64encode(one).decode() if isinstance(one, bytes) else one for name, one in entry.items()}
        for entry in attached
    ]
    document = {"attributes": {"attachments": attributes}, "body": '"attachments": [', "attachments": listed}
    return json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode()


def _multipart_body(attached: list[bytes], main: bytes, at: int) -> bytes:
    parts = [
        b'Content-Disposition: form-data; name="f"; filename="f%d"\r\n\r\n%s' % (number, content)
        for number, content in enumerate(attached)
    ]
    parts.insert(min(at, len(parts)), b'Content-Disposition: form-data; name="body"\r\n\r\n' + main)
    delimiter = f"--{BOUNDARY}".encode()
    return b"preamble\r\n" + b"".join(delimiter + b"\r\n" + part + b"\r\n" for part in parts) + delimiter + b"--\r\n"


def _restored(body: bytes, content_type: str, above: int) -> tuple[Ticket, Ticket, Withdrawal | None]:
    """A ticket as it was admitted, and as a worker has it that fetches everything."""
    ticket, folder = _parsed(body, content_type), folder_of(TicketId("t"), body)
    taken = withdraw(body, content_type, ticket.attachments, folder=folder, above=above)
    if taken is None:
        return ticket, ticket, None
    read = _parsed(taken.body, content_type, folder)
    whole = [
        one if one.reference is None else fetched(one, taken.contents[one.reference.sha256]) for one in read.attachments
    ]
    return ticket, Ticket(**{**_fields(read), "attachments": tuple(whole)}), taken


def _fields(ticket: Ticket) -> dict[str, Any]:
    return {name: getattr(ticket, name) for name in ("kind", "id", "subject", "text", "attributes", "attachments")}


def _said(attachment: Attachment) -> tuple[str, str, bytes, str | None]:
    return attachment.name, attachment.content_type, attachment.content, attachment.text


@given(
    attached=st.lists(_ATTACHED, max_size=4),
    attributes=_VALUES,
    indent=st.sampled_from([None, 0, 3]),
    ascii_only=st.booleans(),
    above=st.integers(0, 40),
)
def test_a_json_ticket_is_the_same_once_everything_is_fetched(
    attached: list[dict[str, Any]], attributes: Any, indent: int | None, *, ascii_only: bool, above: int
) -> None:
    body = _json_body(attached, attributes, indent, ascii_only=ascii_only)
    before, after, taken = _restored(body, JSON, above)
    assert [_said(one) for one in after.attachments] == [_said(one) for one in before.attachments]
    assert (after.text, after.attributes) == (before.text, before.attributes)
    assert (taken is None) == all(len(one.content) <= above for one in before.attachments)
    if taken is not None:
        left = orjson.loads(taken.body)
        for entry, one in zip(left["attachments"], before.attachments, strict=True):
            assert ("stored" in entry) == (len(one.content) > above)


@given(
    attached=st.lists(st.binary(max_size=60).filter(lambda content: b"\r\n" not in content), min_size=1, max_size=4),
    main=st.binary(min_size=1, max_size=20).map(base64.b64encode),
    at=st.integers(0, 4),
    above=st.integers(0, 40),
)
def test_a_multipart_ticket_is_the_same_once_everything_is_fetched(
    attached: list[bytes], main: bytes, at: int, above: int
) -> None:
    body = _multipart_body(attached, main, at)
    before, after, taken = _restored(body, MULTIPART, above)
    assert [_said(one) for one in after.attachments] == [_said(one) for one in before.attachments]
    assert [one.content for one in before.attachments] == attached
    assert after.text == before.text == main.decode()
    assert taken is None or all(content not in taken.body for content in attached if len(content) > max(above, 20))


def test_not_another_byte_of_a_json_ticket_changes() -> None:
    body = (
        b'{ "kind" : "k",\r\n "body":"gr\xc3\xbc\xc3\x9fe \\u00e4", "attributes":{"n":1.10,"big":12345678901234567890},'
        b'"attachments":[{"n\\u0061me":"a.txt" , "cont\\u0065nt" : "0123456789\\n" },{"content":"short"}] }'
    )
    taken = withdraw(body, JSON, _parsed(body, JSON).attachments, folder=folder_of(TicketId("t"), body), above=8)
    assert taken is not None
    before, _, rest = body.partition(b'"cont\\u0065nt" : "0123456789\\n"')
    assert taken.body.startswith(before + b'"stored":{"reference":"t~')
    assert taken.body.endswith(rest)
    assert list(taken.contents.values()) == [b"0123456789\n"]


def test_attachments_of_the_ticket_part_and_parts_of_their_own_are_told_apart() -> None:
    ticket = b'{"body":"x","attachments":[{"name":"inner","content":"' + b"i" * 50 + b'"}]}'
    body = (
        b'--b\r\nContent-Disposition: form-data; name="f"; filename="first"\r\n\r\n' + b"f" * 50 + b"\r\n"
        b'--b\r\nContent-Disposition: form-data; name="ticket"\r\nContent-Type: application/json\r\n\r\n'
        + ticket
        + b'\r\n--b\r\nContent-Disposition: form-data; name="g"; filename="last"\r\n\r\nshort\r\n--b--\r\n'
    )
    before, after, taken = _restored(body, "multipart/form-data; boundary=b", 10)
    assert taken is not None
    assert [one.name for one in before.attachments] == ["inner", "first", "last"]
    assert [_said(one) for one in after.attachments] == [_said(one) for one in before.attachments]
    assert set(taken.contents.values()) == {b"i" * 50, b"f" * 50}


def test_the_same_content_twice_is_stored_once() -> None:
    body = _multipart_body([b"x" * 50, b"x" * 50], b"hello", 0)
    before, after, taken = _restored(body, MULTIPART, 10)
    assert taken is not None
    assert list(taken.contents.values()) == [b"x" * 50]
    assert [_said(one) for one in after.attachments] == [_said(one) for one in before.attachments]


def test_what_it_only_pretends_to_be_is_told_to_whoever_looks_later() -> None:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="body"\r\n\r\nhello\r\n'
        b'--b\r\nContent-Disposition: form-data; name="f"; filename="a.pdf"\r\nContent-Type: application/pdf\r\n\r\n'
        b"\x89PNG\r\n\x1a\n" + b"x" * 50 + b"\r\n--b--\r\n"
    )
    content_type, folder = "multipart/form-data; boundary=b", folder_of(TicketId("t"), body)
    before = _parsed(body, content_type)
    taken = withdraw(body, content_type, before.attachments, folder=folder, above=10)
    assert taken is not None
    assert [one.facts for one in _parsed(taken.body, content_type, folder).attachments] == [
        one.facts for one in before.attachments
    ]


@pytest.mark.parametrize("folder", ["", "other~" + "0" * 32], ids=["none", "of another ticket"])
def test_a_reference_is_believed_only_if_it_leads_where_the_door_said(folder: str) -> None:
    body = _json_body([{"content": "x" * 50}], 1, None, ascii_only=True)
    mine = folder_of(TicketId("t"), body)
    taken = withdraw(body, JSON, _parsed(body, JSON).attachments, folder=mine, above=10)
    assert taken is not None
    reading = parse_ticket(Submission(body=taken.body, content_type=JSON, kind="k", folder=folder), LIMITS)
    assert reading.ticket is None

    parts = _multipart_body([b"x" * 50], b"hello", 0)
    mine = folder_of(TicketId("t"), parts)
    taken = withdraw(parts, MULTIPART, _parsed(parts, MULTIPART).attachments, folder=mine, above=10)
    assert taken is not None
    (only,) = _parsed(taken.body, MULTIPART, folder).attachments
    assert (only.reference, only.content[:13]) == (None, b'{"reference":')


def test_a_member_of_the_clients_own_called_stored_keeps_its_content_inline() -> None:
    body = b'{"body":"x","attachments":[{"stored":1,"content":"' + b"y" * 50 + b'"}]}'
    ticket = _parsed(body, JSON)
    assert withdraw(body, JSON, ticket.attachments, folder=folder_of(TicketId("t"), body), above=10) is None
