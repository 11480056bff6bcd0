"""Charts: every count is drawn once, in proportion, inside its picture."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.station import trends
from gateway.station.desk import charts

rows = st.lists(
    st.tuples(st.integers(-1, 15), st.sampled_from([f"kind-{number}" for number in range(9)]), st.integers(1, 10**6))
)


@given(rows=rows, width=st.sampled_from([60, 3600, 86400]))
def test_every_count_is_drawn_in_proportion_inside_the_picture(rows: list[tuple[int, str, int]], width: int) -> None:
    trend = trends.arranged(trends.last(1_800_000_000.0, width=width, parts=14), rows)
    chart = charts.stacked("Quarantined", "items", trend)

    assert chart.total == sum(number for part, _, number in rows if 0 <= part < 14)
    assert sum(number for _, number in chart.names) == chart.total
    assert len(chart.bars) == sum(count > 0 for _, counts in trend.series for count in counts)
    for bar in chart.bars:
        assert 0 <= bar.x <= bar.x + bar.width <= charts.WIDTH + 0.1
        assert 0 <= bar.y <= bar.y + bar.height <= charts.HEIGHT
        assert 0 <= bar.series <= trends.MOST_SERIES
    assert len(chart.times) <= 8
    assert str(chart.total) in chart.summary


def test_nothing_is_a_chart_without_bars() -> None:
    chart = charts.stacked("Quarantined", "items", trends.arranged(trends.last(0.0, width=60, parts=3), []))
    assert (chart.total, chart.bars, chart.summary) == (0, [], "Quarantined: 0 items")
