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
