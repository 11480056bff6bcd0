"""Events keep their meaning in batches, and states merge in any order (P18)."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contract import journal
from gateway.contract.journal import Event, EventName, Verdict
from gateway.contract.outcomes import Outcome, Stamp, Standing, TicketState

stamps = st.builds(Stamp, generation=st.integers(0, 2), attempt=st.integers(1, 3), interruptions=st.integers(0, 2))
standings = st.builds(Standing, stamp=stamps, state=st.sampled_from(TicketState))
events = st.builds(
    Event,
    event=st.sampled_from(EventName),
    at=st.floats(0, 2e9),
    ticket=st.text("abc", min_size=1),
    kind=st.just("support.ticket"),
    node=st.just("n1"),
    stamp=stamps,
    crashes=st.integers(0, 3),
    data=st.fixed_dictionaries(
        {"verdict": st.sampled_from(Verdict), "outcome": st.sampled_from(Outcome), "detail": st.text("xyz")}
    ),
)


@given(st.lists(events, max_size=20))
def test_a_batch_reads_as_it_was_written(rows: list[Event]) -> None:
    assert [event for body in journal.encode(rows) for event in journal.decode(body)] == rows


def test_a_batch_never_exceeds_its_bounds() -> None:
    rows = [
        Event(event=EventName.REFUSED, at=1.0, ticket=str(n), kind="k", node="n", data={"sample": "é" * 5000})
        for n in range(700)
    ]
    bodies = list(journal.encode(rows))
    assert sum(len(journal.decode(body)) for body in bodies) == 700
    assert max(map(len, bodies)) <= journal.MAX_BATCH_BYTES + 20_000


def test_hostile_text_in_an_event_stays_valid_and_bounded() -> None:
    event = Event(
        event=EventName.REFUSED,
        at=1.0,
        ticket="t",
        kind="k",
        node="n",
        data={"a\ud83d": "\ud83d\x00" + "😀" * 9000, "log_tail": "start" + "x" * 40_000 + "end"},
    )
    (back,) = journal.decode(next(journal.encode([event])))
    assert len(back.data["log_tail"].encode()) <= 16 * 1024
    assert back.data["log_tail"].endswith("end")
    assert "\x00" not in str(back.data)


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'[{"v":2}]', b"\xff", b'[{"v":1,"event":"started"}]'])
def test_an_unreadable_batch_says_so(body: bytes) -> None:
    with pytest.raises(ValueError, match="not a journal batch"):
        journal.decode(body)


@given(st.lists(standings, min_size=1, max_size=4))
def test_reports_merge_to_the_same_state_in_any_order(rows: list[Standing]) -> None:
    results = set()
    for order in itertools.permutations(rows):
        merged = order[0]
        for row in order[1:]:
            merged = merged.merge(row)
        results.add(merged)
    assert len(results) == 1


def test_a_greater_stamp_wins_over_any_rank() -> None:
    first = Stamp(generation=0, attempt=3, interruptions=0)
    replayed = Stamp(generation=1, attempt=1, interruptions=0)
    done = Standing(stamp=first, state=TicketState.QUARANTINED)
    assert done.merge(Standing(stamp=replayed, state=TicketState.ACCEPTED)).state is TicketState.ACCEPTED
