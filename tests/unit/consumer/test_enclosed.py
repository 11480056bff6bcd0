"""What a handler meets when it asks for an attachment that did not travel: its content, a wait, or the end (G13)."""

from pathlib import Path

import orjson
import pytest

from consumer.handler import Attachment, DependencyDown, Reject, Ticket
from consumer.pipe import Order
from consumer.worker.reading import Inadmissible, Reader
from gateway.contract.ids import TicketId
from gateway.contract.references import Reference, digest_of, folder_of
from gateway.depot import open_depot
from gateway.preflight import Limits, Submission, parse_ticket
from gateway.preflight.withdrawal import withdraw

WORDS = "a text that is more than eight bytes, größer"
ENCODED = WORDS.encode("latin-1")
BODY = (
    b'--b\r\nContent-Disposition: form-data; name="body"\r\n\r\nhello\r\n'
    b'--b\r\nContent-Disposition: form-data; name="f"; filename="a.txt"\r\n'
    b"Content-Type: text/plain; charset=iso-8859-1\r\n\r\n"
    + ENCODED
    + b'\r\n--b\r\nContent-Disposition: form-data; name="g"; filename="small"\r\n\r\nsmall\r\n--b--\r\n'
)
CONTENT_TYPE = "multipart/form-data; boundary=b"


def _admitted(place: Path, *, examine: bool = False, store: bool = True) -> Ticket | Inadmissible:
    """Read, as a worker does, what a door has admitted and stored."""
    ticket = parse_ticket(Submission(body=BODY, content_type=CONTENT_TYPE, kind="k"), Limits()).ticket
    assert ticket is not None
    folder = folder_of(TicketId("t"), BODY)
    taken = withdraw(BODY, CONTENT_TYPE, ticket.attachments, folder=folder, above=8)
    assert taken is not None
    if store:
        open_depot(str(place)).put(folder, taken.contents)
    order = Order(
        run="r",
        ticket="t",
        kind="k",
        generation=0,
        attempt=1,
        content_type=CONTENT_TYPE,
        content_encoding=None,
        charset="utf-8",
        examine=examine,
        stored=folder,
        memory_limit=0,
        cpu_seconds=0,
        open_files=0,
        processes=0,
        body=taken.body,
    )
    return Reader(limits=Limits(), encoding="o200k_base", depot=str(place)).read(order, lambda _: None)


def _first(read: Ticket | Inadmissible) -> Attachment:
    assert isinstance(read, Ticket)
    return read.attachments[0]


def _file(place: Path) -> Path:
    (found,) = place.glob("t~*/*")
    return found


def test_it_is_fetched_when_it_is_asked_for_and_stays(tmp_path: Path) -> None:
    read = _admitted(tmp_path)
    first = _first(read)
    assert (first.name, first.size) == ("a.txt", len(ENCODED))
    assert (first.text, first.content) == (WORDS, ENCODED)
    _file(tmp_path).unlink()
    assert first.content == ENCODED
    assert isinstance(read, Ticket)
    assert (read.attachments[1].content, read.attachments[1].size) == (b"small", 5)


def test_what_nobody_asks_for_is_not_missed(tmp_path: Path) -> None:
    read = _admitted(tmp_path / "nowhere", store=False)
    assert isinstance(read, Ticket)
    assert read.text == "hello"
    assert [one.name for one in read.attachments] == ["a.txt", "small"]


def test_a_depot_that_is_down_is_a_dependency_that_is_down_and_may_come_back(tmp_path: Path) -> None:
    first = _first(_admitted(tmp_path / "depot"))
    (tmp_path / "depot").rename(tmp_path / "unmounted")
    with pytest.raises(DependencyDown, match="attachments"):
        _ = first.content
    (tmp_path / "unmounted").rename(tmp_path / "depot")
    assert first.text == WORDS


def test_what_is_gone_is_hopeless(tmp_path: Path) -> None:
    first = _first(_admitted(tmp_path))
    _file(tmp_path).unlink()
    with pytest.raises(Reject, match="is not there"):
        _ = first.content


def test_what_is_not_what_was_sent_is_hopeless(tmp_path: Path) -> None:
    first = _first(_admitted(tmp_path))
    content = _file(tmp_path).read_bytes()
    _file(tmp_path).write_bytes(content[:-1] + b"!")
    with pytest.raises(Reject, match="digest"):
        _ = first.text


def test_an_item_that_came_past_the_door_refers_to_nothing(tmp_path: Path) -> None:
    first = _first(_admitted(tmp_path, examine=True))
    reference = Reference(folder=_file(tmp_path).parent.name, sha256=digest_of(ENCODED), bytes=len(ENCODED))
    assert (first.name, orjson.loads(first.content)) == ("a.txt", reference.document())
