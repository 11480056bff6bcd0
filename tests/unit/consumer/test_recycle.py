from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.intentions import Parting
from consumer.recycle import Growth, Limits, Pace, Recycling, Wear, allowance, slope

MIB = 1 << 20
HOUR = 3600.0
draws = st.floats(0, 1, exclude_max=True)


def _recycling(*, runs: int = 0, rss: int = 0, draw: float = 0.5) -> Recycling:
    return Recycling(Limits(runs=runs, rss=rss), draw=lambda: draw)


def _new(recycling: Recycling, private: int = 8 * MIB) -> Wear:
    return recycling.begin(private=private, resident=private + 100 * MIB, now=0.0)


@given(slots=st.integers(1, 1000))
def test_a_tenth_of_the_slots_may_be_away_and_at_least_one(slots: int) -> None:
    assert 1 <= allowance(slots) <= max(1, slots / 10)


@given(runs=st.integers(1, 10**6), rss=st.integers(10 * MIB, 1 << 40), draw=draws)
def test_limits_are_drawn_within_a_tenth_of_what_is_set(runs: int, rss: int, draw: float) -> None:
    wear = _new(_recycling(runs=runs, rss=rss, draw=draw))
    assert max(1, 0.9 * runs - 1) <= wear.runs_limit <= 1.1 * runs + 1
    assert 0.9 * rss - 1 <= wear.rss_limit <= 1.1 * rss + 1


@given(draw=draws, runs=st.integers(0, 10**9), private=st.integers(0, 1 << 50))
def test_jitter_cannot_switch_on_what_is_off(draw: float, runs: int, private: int) -> None:
    wear = _new(_recycling(draw=draw))
    wear.runs = runs
    wear.ran(private, now=1.0)
    wear.looked(private=private, resident=private, now=1.0)
    assert wear.worn is None


def test_each_worker_draws_its_own_limits() -> None:
    numbers: Callable[[], float] = iter([0.0, 0.0, 0.999, 0.999]).__next__
    recycling = Recycling(Limits(runs=500, rss=256 * MIB), draw=numbers)
    first, second = _new(recycling), _new(recycling)
    assert (first.runs_limit, second.runs_limit) == (450, 550)
    assert first.rss_limit < 256 * MIB < second.rss_limit


@given(rss=st.integers(1, 1 << 40), baseline=st.integers(1, 1 << 40), draw=draws)
def test_limit_below_the_idle_baseline_recycles_nobody_and_is_told(rss: int, baseline: int, draw: float) -> None:
    recycling = _recycling(rss=rss, draw=draw)
    wear = _new(recycling, private=baseline)
    assert wear.worn is None, "before its first run"
    if rss * 1.1 < baseline:
        assert wear.rss_limit == 0
        assert recycling.is_pointless(baseline)
    if rss * 0.9 > baseline:
        assert not recycling.is_pointless(baseline)


def test_worker_is_worn_by_its_runs_or_by_its_memory_now() -> None:
    recycling = _recycling(runs=3, rss=64 * MIB)
    by_runs, by_memory = _new(recycling), _new(recycling)
    for _ in range(2):
        by_runs.ran(108 * MIB, now=0.1)
        assert by_runs.worn is None
    assert by_runs.ran(108 * MIB, now=0.1), "its memory at its end is worth a look"
    assert by_runs.worn is Parting.RUNS
    by_runs.looked(private=65 * MIB, resident=165 * MIB, now=0.1)
    assert by_runs.worn is Parting.RUNS
    by_memory.looked(private=64 * MIB, resident=500 * MIB, now=1.0)
    assert by_memory.worn is None, "what it shares, or has given back, counts not"
    by_memory.looked(private=65 * MIB, resident=500 * MIB, now=1.0)
    assert by_memory.worn is Parting.MEMORY


def test_private_memory_is_looked_at_when_it_may_have_changed_and_now_and_then() -> None:
    wear = _new(_recycling(rss=64 * MIB))
    assert not wear.ran(108 * MIB, now=0.1)
    assert wear.ran(109 * MIB, now=0.1)
    assert wear.ran(50 * MIB, now=2.0)


@given(
    growth=st.integers(-MIB, MIB),
    levels=st.lists(st.integers(0, 1 << 34), min_size=1, max_size=5),
    count=st.integers(2, 40),
)
def test_growth_per_run_is_found_whatever_level_each_worker_started_at(
    growth: int, levels: list[int], count: int
) -> None:
    growths = []
    for level in levels:
        one = Growth()
        for runs in range(11, 11 + count):
            one.add(runs, level + growth * runs)
        growths.append(one)
    assert slope(growths) == pytest.approx(growth, abs=1.0)


def test_growth_is_unknown_before_there_are_two_samples_after_the_warm_up() -> None:
    recycling = _recycling(rss=64 * MIB)
    wear = _new(recycling)
    for runs in (1, 5, 10, 11):
        wear.runs = runs
        wear.looked(private=runs * MIB, resident=0, now=float(runs))
    assert recycling.growth([wear]) is None
    assert recycling.suggested_runs(None) is None


def test_look_at_a_worker_that_is_dead_says_nothing_about_its_growth() -> None:
    wear = _new(_recycling(rss=64 * MIB))
    wear.runs = 20
    wear.looked(private=9 * MIB, resident=100 * MIB, now=1.0)
    wear.looked(private=0, resident=0, now=2.0)
    assert (wear.private, wear.growth.samples) == (9 * MIB, 1)


def test_growth_of_workers_that_have_left_still_counts() -> None:
    recycling = _recycling(rss=64 * MIB)
    wear = _new(recycling)
    for runs in range(11, 20):
        wear.runs = runs
        wear.looked(private=(8 + runs) * MIB, resident=0, now=float(runs))
    recycling.end(wear)
    recycling.end(_new(recycling))
    assert recycling.growth([_new(recycling)]) == pytest.approx(MIB)


@pytest.mark.parametrize(
    ("growth", "expected"),
    [(None, None), (0.0, None), (-5.0, None), (0.001, None), (1.0 * MIB, 56), (100.0 * MIB, 1)],
    ids=["unknown", "none", "shrinks", "for-ever", "some", "much"],
)
def test_suggested_limit_is_the_run_at_which_memory_would_be_full(growth: float | None, expected: int | None) -> None:
    recycling = _recycling(rss=64 * MIB)
    _new(recycling)
    assert recycling.suggested_runs(growth) == expected


def test_nothing_is_suggested_without_a_limit_of_memory() -> None:
    assert _recycling().suggested_runs(5.0) is None


def test_mold_is_worn_when_it_has_grown_by_a_fourth_of_a_workers_limit() -> None:
    recycling = _recycling(rss=64 * MIB)
    assert not recycling.mold_is_worn(grown=16 * MIB, served=3600.0, took=1.0)
    assert recycling.mold_is_worn(grown=17 * MIB, served=3600.0, took=1.0)
    assert not _recycling().mold_is_worn(grown=1 << 40, served=3600.0, took=1.0)


def test_mold_serves_ten_times_as_long_as_it_took_to_load_unless_it_grows_beyond_all_measure() -> None:
    recycling = _recycling(rss=64 * MIB)
    assert not recycling.mold_is_worn(grown=64 * MIB, served=29.9, took=3.0)
    assert recycling.mold_is_worn(grown=64 * MIB, served=30.0, took=3.0)
    assert recycling.mold_is_worn(grown=65 * MIB, served=0.1, took=3.0)


def _hour(pace: Pace, hour: int, runs: int, times: int = 3) -> list[bool]:
    return [pace.note(hour * HOUR + n, runs) for n in range(times)]


def test_interval_that_shrinks_by_half_over_a_day_is_an_alarm_once() -> None:
    pace = Pace()
    assert not any(_hour(pace, 0, 500))
    assert not any(_hour(pace, 12, 260))
    assert _hour(pace, 20, 250) == [False, False, True]
    assert pace.shrunk
    assert not any(_hour(pace, 21, 200)), "it is known"
    assert not any(_hour(pace, 22, 400))
    assert not pace.shrunk


def test_interval_of_more_than_a_day_ago_is_compared_with_nothing() -> None:
    pace = Pace()
    _hour(pace, 0, 500)
    assert not any(_hour(pace, 25, 100))
    assert not pace.shrunk


def test_two_recycles_in_an_hour_are_no_interval() -> None:
    pace = Pace()
    _hour(pace, 0, 500)
    assert not any(_hour(pace, 1, 10, times=2))


@given(st.lists(st.tuples(st.floats(0, 30 * HOUR), st.integers(450, 550)), max_size=60))
def test_jitter_alone_is_never_an_alarm(recycles: list[tuple[float, int]]) -> None:
    pace = Pace()
    assert not any(pace.note(at, runs) for at, runs in sorted(recycles))
