"""What is filled in is, byte for byte, what the contract's encoder and the frames' own layout make of the ticket."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.amqp.frames import content_header
from gateway.amqp.stencil import Laid, Stencil, Uncuttable, wire_of
from gateway.contract import journal
from gateway.contract.envelope import Envelope, decode
from gateway.contract.ids import TicketId, uuid7
from gateway.contract.journal import Event, EventName
from gateway.fresh import FreshTicket

_kinds = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,63}", fullmatch=True)
tickets = st.builds(
    FreshTicket,
    ticket=st.builds(lambda: TicketId(uuid7())),
    kind=_kinds,
    client=st.text(max_size=200),
    content_type=st.text("abc/;= é", max_size=255),
    body=st.binary(max_size=64),
    charset=st.sampled_from(["utf-8", "us-ascii", "cp1252", "utf-16"]),
    tokens=st.integers(0, 2**33),
    exact=st.booleans(),
    received=st.floats(1.7e9, 2**31),
)


def _ticket(**other: str) -> FreshTicket:
    chosen = {"kind": "support.ticket", "client": "shop", "content_type": "application/json", **other}
    return FreshTicket(
        ticket=TicketId(uuid7()), body=b"{}", charset="utf-8", tokens=1, exact=True, received=1.8e9, **chosen
    )


@given(tickets)
def test_a_header_that_is_filled_in_is_the_one_that_is_written(fresh: FreshTicket) -> None:
    message = fresh.message
    wire = wire_of(message)

    assert wire.body == message.body == fresh.body
    if isinstance(message, Laid):
        assert message.header == content_header(wire, message.message_id)
    read = decode(wire)
    assert isinstance(read, Envelope)
    assert (read.ticket, read.kind) == (fresh.ticket, fresh.kind)


def test_an_ordinary_ticket_has_a_stencil() -> None:
    first, second = _ticket().message, _ticket().message

    assert isinstance(first, Laid)
    assert isinstance(second, Laid)
    assert first.message_id != second.message_id
    assert len(first.header) == len(second.header)


def test_a_ticket_that_looks_like_a_sample_is_written_like_any_other() -> None:
    message = _ticket(client="7469636b-6574-7000-8000-7469636b6574").message

    assert not isinstance(message, Laid)
    assert message.headers["lz-admission"]["client"] == "7469636b-6574-7000-8000-7469636b6574"


def test_what_shows_a_ticket_shows_nothing_of_what_it_says() -> None:
    assert repr(_ticket().body) not in repr(_ticket()) + repr(_ticket().envelope)


@pytest.mark.parametrize("holes", [[(b"b", "1s"), (b"a", "1s")], [(b"x", "1s")], [(b"c", "1s")], [(b"a", "i")]])
def test_a_stencil_is_cut_only_where_each_sample_stands_once_in_its_order(holes: list[tuple[bytes, str]]) -> None:
    with pytest.raises(Uncuttable):
        Stencil(b"abcc", holes)


def test_the_row_of_a_new_ticket_is_that_of_its_event() -> None:
    data: dict[str, str | int | bool] = {"client": "shop", "bytes": 2, "exact": True}
    row = journal.row_of_new(at=1.5, ticket="t", kind="k", node="n", data=data)
    (batch,) = journal.batches([row])
    (event,) = journal.decode(batch)

    same = Event(event=EventName.ACCEPTED, at=1.5, ticket="t", kind="k", node="n", data=data, id=event.id)
    assert event == same
    assert journal.row_of(same) == row
