from hypothesis import given
from hypothesis import strategies as st

from consumer.read_ahead import ENOUGH, MOST, MOST_BYTES, SHORT_SECONDS, ReadAhead

short = st.floats(0, SHORT_SECONDS, exclude_max=True)
long = st.floats(SHORT_SECONDS, 3600)
slots = st.integers(0, 1000)


def after(seconds: list[float]) -> ReadAhead:
    known = ReadAhead()
    for each in seconds:
        known.ran(each)
    return known


@given(runs=st.lists(short | long, max_size=200), slots=slots)
def test_a_node_reads_ahead_as_many_again_as_it_has_slots_at_most(runs: list[float], slots: int) -> None:
    assert after(runs).allowance(slots) in {0, slots}


@given(runs=st.lists(short, max_size=ENOUGH - 1), slots=slots)
def test_a_node_that_has_seen_few_runs_does_not_read_ahead(runs: list[float], slots: int) -> None:
    assert after(runs).allowance(slots) == 0


@given(runs=st.lists(st.floats(0, SHORT_SECONDS * 0.49), min_size=ENOUGH, max_size=200))
def test_a_node_whose_runs_are_all_short_reads_ahead(runs: list[float]) -> None:
    assert after(runs).allowance(4) == 4


@given(runs=st.lists(st.floats(SHORT_SECONDS * 0.51, SHORT_SECONDS * 0.99), max_size=200))
def test_what_runs_about_that_long_have_begun_they_go_on_with_and_do_not_begin(runs: list[float]) -> None:
    assert after(runs).allowance(4) == 0
    assert after([*[0.0] * ENOUGH, *runs]).allowance(4) == 4


@given(runs=st.lists(short | long, max_size=200))
def test_a_node_reads_ahead_only_while_the_mean_is_short(runs: list[float]) -> None:
    known = after(runs)
    assert known.allowance(4) == 0 or known.mean < SHORT_SECONDS


@given(runs=st.lists(long, min_size=1, max_size=200))
def test_a_node_whose_runs_are_all_long_does_not_read_ahead(runs: list[float]) -> None:
    assert after(runs).allowance(4) == 0


@given(runs=st.lists(short | long, min_size=1, max_size=64))
def test_it_is_the_mean_of_the_runs_that_counts(runs: list[float]) -> None:
    assert abs(after(runs).mean - sum(runs) / len(runs)) <= 1e-9 * (1 + max(runs))


@given(past=st.lists(short, max_size=500), now=st.floats(SHORT_SECONDS * 3, 3600))
def test_runs_that_have_become_long_end_it_within_a_few_dozen_whatever_was_before(
    past: list[float], now: float
) -> None:
    assert after([*past, *[now] * 64]).allowance(4) == 0


@given(runs=st.lists(short | long, max_size=200), slots=st.integers(1, 1000))
def test_a_node_reads_deeper_only_where_its_death_is_not_held_against_it_and_what_is_ahead_of_a_slot_is_short_together(
    runs: list[float], slots: int
) -> None:
    known = after(runs)
    ahead = known.allowance(slots, deep=True)
    assert ahead <= max(slots, MOST)
    assert (ahead == 0) == (known.allowance(slots) == 0)
    assert ahead <= slots or known.mean * ahead / slots <= 2 * SHORT_SECONDS * (1 + 1e-9)


@given(slots=st.integers(1, MOST), seconds=st.floats(0, SHORT_SECONDS / MOST / 1.01))
def test_a_node_whose_runs_are_very_short_reads_far_ahead(slots: int, seconds: float) -> None:
    assert after([seconds] * ENOUGH).allowance(slots, deep=True) == MOST


def test_runs_of_about_one_length_do_not_change_the_depth() -> None:
    known = after([0.002] * 64)
    depths = set()
    for seconds in [0.0015, 0.0025] * 200:
        known.ran(seconds)
        depths.add(known.allowance(2, deep=True))
    assert depths == {20}


def test_large_tickets_are_read_as_many_ahead_as_there_are_slots_and_no_more() -> None:
    known = ReadAhead()
    for _ in range(ENOUGH):
        known.ran(0.0, MOST_BYTES // MOST + 1)
    assert known.allowance(2, deep=True) == 2


def test_where_something_waits_behind_a_long_run_nothing_is_read_ahead_until_runs_are_known_to_be_short_again() -> None:
    known = after([0.0] * 100)
    known.stalled()
    assert known.allowance(4, deep=True) == 0
    for _ in range(ENOUGH):
        known.ran(0.0)
    assert known.allowance(4, deep=True) == MOST
