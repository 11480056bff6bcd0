"""A file's name is the same whatever form it came in, for the door and for whoever reads the ticket again (D45)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.preflight import Limits, Submission, parse_ticket
from gateway.preflight.attachments import MAX_NAME_BYTES
from gateway.preflight.file_names import file_name


def _named(disposition: bytes) -> str:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="body"\r\n\r\nhello\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; ' + disposition + b"\r\n\r\nx\r\n--b--\r\n"
    )
    submission = Submission(body=body, content_type="multipart/form-data; boundary=b", kind="k")
    door = parse_ticket(submission, Limits())
    worker = parse_ticket(submission, Limits())
    assert door.ticket is not None, door.findings
    assert worker.ticket == door.ticket
    return door.ticket.attachments[0].name


@pytest.mark.parametrize(
    "disposition",
    [
        'filename="übersicht.txt"'.encode(),
        'filename="übersicht.txt"'.encode("latin-1"),
        b"filename*=UTF-8''%C3%BCbersicht.txt",
        b"filename*=iso-8859-1'de'%FCbersicht.txt",
        b"filename=\"fallback.txt\"; filename*=UTF-8''%C3%BCbersicht.txt",
        b'filename="=?utf-8?B?w7xiZXJzaWNodC50eHQ=?="',
        b'filename="=?UTF-8?Q?=C3=BCbersicht.txt?="',
        b'filename="=?iso-8859-1?q?=FCber?= =?us-ascii?Q?sicht.txt?="',
        'filename="../../etc/übersicht.txt"'.encode(),
        'filename="C:/temp/übersicht.txt"'.encode(),
        b"filename*=UTF-8''..%2F%2e%2e%2F%C3%BCbersicht.txt",
        b"filename*=UTF-8''%C3%BCber%00sicht.txt",
        b'filename="=?utf-8?B?Li4vw7xiZXJzaWNodC50eHQ=?="',
    ],
    ids=[
        "raw utf-8", "raw latin-1", "extended", "extended latin-1", "extended before plain", "base64 word",
        "quoted word", "two words", "path", "drive", "extended path", "extended nul", "path in a word",
    ],
)  # fmt: skip
def test_one_name_in_every_form_is_one_name(disposition: bytes) -> None:
    assert _named(disposition) == "übersicht.txt"


@pytest.mark.parametrize(
    ("disposition", "shown"),
    [
        (b'filename="=?x-unknown?B?w7w=?="', "=?x-unknown?B?w7w=?="),
        (b'filename="=?utf-8?B?!?="', "=?utf-8?B?!?="),
        (b'filename="a =?utf-8?Q?b?="', "a =?utf-8?Q?b?="),
        (b"filename*=x-unknown''a; filename=b.txt", "b.txt"),
        (b"filename*=UTF-8''%ED%A0%80.txt", "\ufffd\ufffd\ufffd.txt"),
        (b'filename=""', "attachment-1"),
        (b'filename="say %22hi%22"', 'say "hi"'),
    ],
    ids=["unknown charset", "no base64", "not alone", "extended unknown", "surrogate", "empty", "browser escapes"],
)
def test_what_cannot_be_read_is_shown_as_it_came(disposition: bytes, shown: str) -> None:
    assert _named(disposition) == shown


def test_a_very_long_name_is_cut_and_keeps_its_ending() -> None:
    shown = _named(b'filename="' + "ü".encode() * 1500 + b'.log"')
    assert shown.endswith("….log")
    assert len(shown.encode()) <= MAX_NAME_BYTES


@given(st.fixed_dictionaries({}, optional={"filename": st.text(max_size=60), "filename*": st.text(max_size=60)}))
def test_no_header_is_too_strange(parameters: dict[str, str]) -> None:
    found = file_name(parameters)
    assert found is None or isinstance(found, str)
    assert (found is None) <= ("filename" not in parameters)
