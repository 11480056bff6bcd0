"""What must hold for any bytes at all, as functions that a fuzzer calls: each raises when it does not.

Owns the claims, not the search: `python -m tests.fuzz` searches, and the suite calls each with its seeds. The first
bytes of an input choose the variant, the rest is what a client would send.
"""

from collections.abc import Callable
from typing import Final

import orjson

from gateway.admission import Limits, Violation
from gateway.preflight.charsets import CODECS
from gateway.preflight.encoding import Decoded, Undecodable, read_text
from gateway.preflight.inflation import Broken, Coding, Inflater, Overflow, inflate
from gateway.preflight.json_body import Document, read_json
from gateway.preflight.media_type import MediaType
from gateway.preflight.multipart import Part, read_parts
from gateway.preflight.ticket import Submission, parse_ticket

CAP: Final = 4_096
_CODINGS: Final = tuple(Coding)
_LABELS: Final = (None, "x-mac-foo", *sorted(CODECS))
_FORM: Final = MediaType(essence="multipart/form-data", parameters={"boundary": "b"})
_TYPES: Final = ("application/json", "text/plain", "text/plain; charset=utf-16", "multipart/form-data; boundary=b", "x")
_LIMITS: Final = Limits(max_json_depth=16, max_attachments=3)


def body(data: bytes) -> None:
    """A coded body is the same however it is cut up, never larger than the cap, and never raises."""
    coding, size, coded = _CODINGS[data[0] % len(_CODINGS)], 1 + data[1], data[2:]
    inflater = Inflater(coding, max_bytes=CAP)
    in_pieces: bytes | Broken | Overflow | None = None
    for start in range(0, len(coded), size):
        in_pieces = inflater.feed(coded[start : start + size])
        assert inflater.held <= CAP + 1 + size
        if in_pieces is not None:
            break
    if in_pieces is None:
        in_pieces = inflater.finish()
    whole = inflate(coded, coding, max_bytes=CAP)
    assert type(whole) is type(in_pieces)
    if isinstance(whole, bytes):
        assert whole == in_pieces
        assert len(whole) <= CAP


def json(data: bytes) -> None:
    """JSON is a value that a plain parser reads alike, or one violation with a place inside the body."""
    read = read_json(data, max_depth=16)
    match read:
        case Document(value):
            assert orjson.loads(data) == value
        case Violation(offset=offset):
            assert offset is None or 0 <= offset <= len(data)


def text(data: bytes) -> None:
    """Bytes become text that every store can hold, or are refused with a place inside them."""
    read = read_text(data[2:], _LABELS[int.from_bytes(data[:2]) % len(_LABELS)], accept_detected=bool(data[0] & 1))
    match read:
        case Decoded():
            _holds(read.text)
        case Undecodable(offset=offset):
            assert offset is None or 0 <= offset <= len(data)


def multipart(data: bytes) -> None:
    """The parts of a form are pieces of its body, at most so many, and none contains a boundary."""
    parts = read_parts(data, _FORM, max_parts=4)
    if isinstance(parts, tuple):
        assert 0 < len(parts) <= 4
        for part in parts:
            _is_piece(part, data)


def ticket(data: bytes) -> None:
    """A ticket is whole, or there are findings; never both and never neither."""
    reading = parse_ticket(Submission(body=data[1:], content_type=_TYPES[data[0] % len(_TYPES)], kind="k"), _LIMITS)
    assert (reading.ticket is None) == bool(reading.findings)
    if reading.ticket is not None:
        for piece in reading.ticket.texts():
            _holds(piece)
        for attachment in reading.ticket.attachments:
            _holds(attachment.name)
            assert not set("/\\") & set(attachment.name)


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "body": body,
    "json": json,
    "text": text,
    "multipart": multipart,
    "ticket": ticket,
}


def _holds(found: str) -> None:
    found.encode("utf-8")
    assert "\0" not in found


def _is_piece(part: Part, whole: bytes) -> None:
    assert part.content in whole
    assert b"\r\n--b" not in part.content
