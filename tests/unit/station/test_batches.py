"""A journal batch holds many events; what one of them is must not decide about the others."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contract import journal
from gateway.contract.journal import Event, EventName

_rows = st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3))


def _event(ticket: str) -> Event:
    return Event(event=EventName.ACCEPTED, at=1.0, ticket=ticket, kind="k", node="n")


@given(odd=st.lists(_rows | st.dictionaries(st.sampled_from(["v", "id", "event"]), _rows), max_size=4))
def test_what_cannot_be_read_is_returned_and_the_rest_is_read(odd: list[object]) -> None:
    good = [_event(str(number)) for number in range(3)]
    (body,) = journal.encode(good)
    rows = [row for pair in zip(json.loads(body), [*odd, None, None, None], strict=False) for row in pair]
    events, others = journal.decode_each(json.dumps(rows).encode())
    assert events == tuple(good)
    assert others is not None
    assert len(json.loads(others)) == 3


def test_a_batch_of_good_events_leaves_nothing() -> None:
    (body,) = journal.encode([_event("1")])
    assert journal.decode_each(body)[1] is None


def test_a_batch_is_halved_until_one_event_is_left() -> None:
    (body,) = journal.encode([_event(str(number)) for number in range(3)])
    first, second = journal.halves(body)
    assert [event.ticket for half in (first, second) for event in journal.decode(half)] == ["0", "1", "2"]
    assert journal.halves(first) == ()


@pytest.mark.parametrize("body", [b"", b"{}", b"7", b"[", b"[]", b"\xff"])
def test_what_is_no_batch_cannot_be_halved(body: bytes) -> None:
    assert journal.halves(body) == ()
