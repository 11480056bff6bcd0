"""What is brought to account together is what would have been observed one by one."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Histogram

from gateway.metrics import Metrics
from gateway.tally import Tally

BOUNDS = (0.5, 1.0, 4.0)


def _histogram() -> Histogram:
    return Histogram("figure", "what", buckets=BOUNDS, registry=None)


def _figures(histogram: Histogram) -> list[tuple[str, str, float]]:
    return [
        (sample.name, sample.labels.get("le", ""), sample.value) for sample in next(iter(histogram.collect())).samples
    ]


@given(st.lists(st.lists(st.sampled_from((0.0, 0.25, *BOUNDS, 3.0, 5.0, 1024.0)))))
def test_a_tally_comes_to_the_same_figures_as_observing(beats: list[list[float]]) -> None:
    one_by_one, together = _histogram(), _histogram()
    tally = Tally(together)
    for values in beats:
        for value in values:
            one_by_one.observe(value)
            tally.observe(value)
        tally.settle()
    assert _figures(together) == _figures(one_by_one)


def test_what_is_shown_counts_what_was_observed_a_moment_ago() -> None:
    metrics = Metrics()
    metrics.tally(metrics.body_bytes).observe(1000)
    assert b"lazaretto_admission_body_bytes_count 1.0" in metrics.exposition()
    assert b"lazaretto_admission_body_bytes_count 1.0" in metrics.exposition()
