"""Reading what arrives in quarantine, and keeping it exactly."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Envelope
from gateway.contract.history import History, RunRecord
from gateway.contract.ids import TicketId, is_ticket_id
from gateway.contract.outcomes import Outcome, Stamp
from gateway.contract.wire import Wire
from gateway.station import arrival as arrivals
from gateway.station.amqp import freeze, thaw

_names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=20)
_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(codec="utf-8"), max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=8,
)


@given(
    body=st.binary(max_size=64),
    headers=st.dictionaries(_names, _values, max_size=5),
    correlation=st.none() | _names,
    timestamp=st.none() | st.integers(0, 2**32),
)
def test_a_message_comes_out_of_the_store_as_it_went_in(
    body: bytes, headers: dict[str, Any], correlation: str | None, timestamp: int | None
) -> None:
    wire = Wire(body=body, headers=headers, correlation_id=correlation, timestamp=timestamp, content_type="text/plain")
    assert thaw(freeze(wire), body) == wire


def test_bytes_in_headers_survive() -> None:
    assert thaw(freeze(Wire(body=b"", headers={"raw": b"\xff\x00"})), b"").headers == {"raw": b"\xff\x00"}


@given(body=st.binary(max_size=32), headers=st.dictionaries(st.sampled_from(["lz-schema", "lz-reason", "x"]), _values))
def test_anything_at_all_can_be_read(body: bytes, headers: dict[str, Any]) -> None:
    found = arrivals.read(Wire(body=body, headers=headers, correlation_id="\udcff", type="\x00"))
    assert found.ticket
    assert found.wire.body == body


def _arrival(history: History, **changes: Any) -> arrivals.Arrival:
    item = Envelope(
        ticket=TicketId("1"), kind="k", body=b"", content_type="text/plain", history=history, reason="rejected"
    )
    return arrivals.read(envelopes.encode(envelopes.supersede(item, reason="rejected", **changes)))


def _record(attempt: int, outcome: Outcome) -> RunRecord:
    return RunRecord(attempt=attempt, outcome=outcome)


def _stamps(found: arrivals.Arrival, known_before: int) -> list[tuple[int, int, int]]:
    runs = arrivals.generation_runs(found, known_before)
    return [(stamp.generation, stamp.attempt, stamp.interruptions) for stamp in runs]


def test_uncharged_returns_tell_the_starts_of_one_attempt_apart() -> None:
    history = History(
        (
            _record(1, Outcome.RELEASED),
            _record(1, Outcome.OUTAGE),
            _record(1, Outcome.FAILED),
            _record(2, Outcome.FAILED),
        )
    )
    found = _arrival(history, attempt=2, interruptions=2)
    assert _stamps(found, 0) == [(0, 1, 0), (0, 1, 1), (0, 1, 2), (0, 2, 2)]


def test_records_of_earlier_generations_are_left_to_them() -> None:
    history = History((_record(1, Outcome.FAILED), _record(2, Outcome.REJECTED), _record(1, Outcome.CRASHED)))
    assert _stamps(_arrival(history, generation=1), 2) == [(1, 1, 0)]


def test_returns_whose_records_gave_way_are_still_counted() -> None:
    history = History((_record(1, Outcome.RELEASED), _record(1, Outcome.FAILED)), left_out=5)
    assert _stamps(_arrival(history, interruptions=6), 0) == [(0, 1, 5), (0, 1, 6)]


def test_a_record_that_stands_for_many_waits_counts_as_many_returns() -> None:
    waits = RunRecord(attempt=1, outcome=Outcome.DEPENDENCY, times=7)
    history = History((_record(1, Outcome.DEPENDENCY), waits, _record(1, Outcome.FAILED)))
    assert _stamps(_arrival(history, interruptions=8), 0) == [(0, 1, 0), (0, 1, 1), (0, 1, 8)]


def test_charged_attempts_are_those_that_the_item_tells_of() -> None:
    history = History((_record(1, Outcome.FAILED), _record(2, Outcome.RELEASED)))
    found = _arrival(history, attempt=2, interruptions=1)
    assert arrivals.charged_attempts(found, arrivals.generation_runs(found, 0)) == 1


@pytest.mark.parametrize("length", [1, 100, 128])
def test_names_apart_are_ticket_ids_again_and_all_different(length: int) -> None:
    item = Envelope(ticket=TicketId("t" * length), kind="k", body=b"b", content_type="text/plain")
    found = list(itertools.islice(arrivals.named(arrivals.read(envelopes.encode(item))), 20))
    assert found[0].ticket == item.ticket
    assert len({apart.ticket for apart in found}) == 20
    assert all(is_ticket_id(apart.ticket) for apart in found)
    assert {apart.stamp for apart in found} == {Stamp(generation=0, attempt=1, interruptions=0)}


def test_whatever_cannot_be_read_has_a_name_all_the_same() -> None:
    found = arrivals.unreadable(Wire(body=b"\xff", headers={"lz-reason": object()}), ValueError("odd"))
    assert (found.ticket, found.malformed, found.reason) == (found.digest, True, "malformed")
