"""What a node tells of its workers is bounded, and its sums are of all of them."""

from hypothesis import given
from hypothesis import strategies as st

from consumer.census import MOST_NAMED, Census, WorkerSight, words
from consumer.intentions import Phase

workers = st.builds(
    WorkerSight,
    pid=st.integers(1, 1 << 22),
    phase=st.sampled_from(Phase),
    runs=st.integers(0, 10**6),
    resident=st.integers(0, 1 << 40),
)


@given(st.lists(workers, max_size=100))
def test_sums_are_of_all_workers_and_no_more_than_64_are_named(found: list[WorkerSight]) -> None:
    told = words(Census(workers=found))
    assert told["memory"]["workers"] == sum(worker.resident for worker in found)
    assert sum(told["phases"].values()) == len(found)
    assert len(told["workers"]) == min(len(found), MOST_NAMED)
    assert all(one["resident"] <= told["memory"]["largest_worker"] for one in told["workers"])
