"""The storm guard's rule: whose fault many deaths are (C12)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.storm import Rule, Storm, Tally, first_run, judge
from gateway.contract.envelope import Envelope
from gateway.contract.ids import TicketId
from gateway.contract.outcomes import Outcome
from gateway.contract.topology import Lane

RULE = Rule()
NOW = 10_000.0


def died(ticket: object, at: float = NOW, survived: int = 0) -> Tally:
    return Tally(at=at, survived=survived, died=str(ticket), evidence=f"signal:11 of {ticket}")


def judged(*oldest_first: Tally, rule: Rule = RULE, now: float = NOW) -> Storm | None:
    return judge(reversed(oldest_first), rule, now)


def item(attempt: int = 1, suspect: str | None = None) -> Envelope:
    return Envelope(
        ticket=TicketId("t"), kind="k", body=b"", content_type="text/plain", attempt=attempt, suspect=suspect
    )


def test_five_deaths_of_five_runs_are_a_storm_and_four_are_none() -> None:
    assert judged(*map(died, range(4))) is None
    assert judged(*map(died, range(5))) == Storm(
        since=NOW, runs=5, deaths=5, items=("0", "1", "2", "3", "4"), evidence="signal:11 of 4"
    )


def test_one_item_that_dies_over_and_over_is_no_storm() -> None:
    assert judged(*(died("9417") for _ in range(20))) is None


def test_deaths_below_the_share_are_the_items_own_doing() -> None:
    assert judged(*map(died, range(5)), Tally(at=NOW, survived=6)) is None
    assert judged(*map(died, range(5)), Tally(at=NOW, survived=5)) is not None


def test_runs_that_are_long_past_say_nothing() -> None:
    assert judged(*(died(n, at=NOW - RULE.span - 1) for n in range(20))) is None
    assert judged(*(died(n, at=NOW - RULE.span) for n in range(5))) is not None


def test_runs_beyond_the_window_say_nothing() -> None:
    assert judged(*map(died, range(20)), Tally(at=NOW, survived=20)) is None
    assert judged(Tally(at=NOW, survived=1000), *map(died, range(10))) is not None


def test_a_storm_says_in_a_sentence_what_it_saw() -> None:
    storm = judged(*map(died, range(5)))
    assert storm is not None
    assert storm.why == (
        "5 different items ended with a dead worker in 5 of the last 5 first runs, last signal:11 of 4"
    )
    assert "without a word" in replace(storm, evidence="").why


@pytest.mark.parametrize("between", [2, 9, 10, 30])
def test_killers_spread_in_a_stream_of_good_items_are_no_storm(between: int) -> None:
    seen: list[Tally] = []
    for killer in range(20):
        seen.append(died(killer, survived=between))
        assert judged(*seen) is None


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 30)), max_size=60))
def test_a_storm_always_has_its_items_and_its_share(seen: list[tuple[int, int]]) -> None:
    storm = judged(*(died(ticket, survived=survived) for ticket, survived in seen))
    runs = [kind for ticket, survived in seen for kind in (*["ok"] * survived, str(ticket))][-RULE.window :]
    deaths = [kind for kind in runs if kind != "ok"]
    assert (storm is not None) == (len(set(deaths)) >= RULE.items and len(deaths) >= RULE.share * len(runs))


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3)), max_size=30), st.integers(1, 30))
def test_a_good_run_never_brings_a_storm(seen: list[tuple[int, int]], good: int) -> None:
    tallies = [died(ticket, survived=survived) for ticket, survived in seen]
    if judged(*tallies) is None:
        assert judged(*tallies, Tally(at=NOW, survived=good)) is None


@pytest.mark.parametrize("outcome", list(Outcome))
def test_only_first_runs_in_the_work_lane_count(outcome: Outcome) -> None:
    counted = {
        Outcome.CRASHED: False,
        Outcome.MEMORY: False,
        Outcome.LOST: None,
        Outcome.RELEASED: None,
        Outcome.OUTAGE: None,
        Outcome.INADMISSIBLE: None,
        Outcome.MALFORMED: None,
    }
    assert first_run(item(), Lane.WORK, outcome) is counted.get(outcome, True)
    assert first_run(item(attempt=2), Lane.WORK, outcome) is None
    assert first_run(item(suspect="timed_out"), Lane.WORK, outcome) is None
    assert first_run(item(), Lane.SUSPECTS, outcome) is None
