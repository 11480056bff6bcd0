from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.usage import Usage

_seconds = st.floats(min_value=0, max_value=1e9)
_faults = st.integers(min_value=0, max_value=2**53)
_usages = st.builds(Usage, user=_seconds, system=_seconds, minor_faults=_faults, major_faults=_faults)


@given(_usages, _usages)
def test_what_came_on_top_is_never_less_than_nothing(earlier: Usage, later: Usage) -> None:
    used = later.since(earlier)
    assert min(used.user, used.system, used.minor_faults, used.major_faults) >= 0


@given(_usages)
def test_whatever_there_was_before_the_first_run_is_all_that_was_used(usage: Usage) -> None:
    assert usage.since(Usage()) == usage


@pytest.mark.parametrize("figures", [[], [1.0], [1, 2, 3, "4"], [1, 2, 3, 4, 5], [True, 0, 0, 0], [None] * 4])
def test_what_is_no_usage_is_none(figures: list[Any]) -> None:
    assert Usage.unpacked(figures) is None


def test_figures_are_read_in_their_order() -> None:
    assert Usage.unpacked([1.5, 2.5, 3, 4]) == Usage(user=1.5, system=2.5, minor_faults=3, major_faults=4)
