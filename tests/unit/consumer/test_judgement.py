"""Dead, or only cut off: judged by the holder's own signs of life (P8)."""

from hypothesis import given
from hypothesis import strategies as st

from consumer.judgement import Judged, Open, judge, wait_for
from gateway.contract.envelope import Loss
from gateway.contract.outcomes import Outcome

NOW = 1_000_000.0
EVERY = 5.0
WAIT = 15.0
STEADY = 600.0
LOSS = Loss(holder="n1#1", beat=500.0, at=NOW - WAIT)

moments = st.floats(0, 1e9, allow_nan=False)


def judged(loss: Loss = LOSS, *, beat: float | None = 500.0, steady_for: float = STEADY, now: float = NOW) -> object:
    return judge(loss, beat=beat, every=EVERY, wait=WAIT, steady_for=steady_for, now=now)


def test_a_holder_that_went_on_beating_has_only_lost_its_line() -> None:
    assert judged(beat=510.0) == Judged(Outcome.OUTAGE)


def test_a_holder_that_beat_no_more_is_dead() -> None:
    assert judged(beat=500.0) == Judged(Outcome.LOST)


def test_a_last_beat_that_was_still_on_its_way_proves_no_life() -> None:
    assert judged(beat=505.0) == Judged(Outcome.LOST)


def test_a_holder_that_the_store_has_never_heard_of_is_dead() -> None:
    assert judged(Loss(holder="n1#1", beat=0.0, at=NOW - WAIT), beat=None) == Judged(Outcome.LOST)


def test_a_holder_whose_row_is_gone_is_dead() -> None:
    assert judged(beat=None) == Judged(Outcome.LOST)


def test_a_holder_heard_for_the_first_time_is_compared_from_then_on() -> None:
    unheard = Loss(holder="n1#1", beat=0.0, at=NOW - WAIT)
    assert judged(unheard, beat=700.0) == Open(Loss(holder="n1#1", beat=700.0, at=NOW - WAIT))


def test_a_store_that_may_have_missed_beats_convicts_nobody_yet_and_acquits_at_once() -> None:
    assert judged(steady_for=14.0) == Open(LOSS)
    assert judged(steady_for=0.0, beat=510.0) == Judged(Outcome.OUTAGE)


@given(st.floats(0, 1e6), st.one_of(st.none(), moments), moments)
def test_after_four_waits_every_question_is_answered(steady_for: float, beat: float | None, earlier: float) -> None:
    loss = Loss(holder="n1#1", beat=earlier, at=NOW - 4 * WAIT - 1)
    assert isinstance(judged(loss, beat=beat, steady_for=steady_for), Judged)


@given(moments, moments, st.floats(-1e6, 1e6))
def test_no_clock_but_the_holders_own_makes_a_dead_one_live_or_a_living_one_dead(
    beat: float, grown: float, skew: float
) -> None:
    loss = Loss(holder="n1#1", beat=beat + 1, at=NOW - WAIT)
    here, elsewhere = (judged(loss, beat=beat + 1 + grown, now=now) for now in (NOW, NOW + skew))
    assert here == elsewhere


def test_an_item_waits_for_three_beats_and_never_less_than_it_takes_to_end_a_run() -> None:
    assert wait_for(5.0, 10.0) == 15.0
    assert wait_for(0.2, 15.0) == 15.0
