"""Benchmarks of accidents run, with tiny numbers, and nobody but the guilty pays. No figure here is a time."""

import pytest

from tests.benchmarks.running import figures

pytestmark = pytest.mark.usefixtures("broker")


@pytest.mark.parametrize("node", [(), ("--node",)], ids=["worker", "node"])
def test_killer_is_started_three_times_and_harms_nobody_else(node: tuple[str, ...]) -> None:
    found = figures("storm", *node)
    assert found["time_ratio_to_clean"] > 0
    assert found["alert_after_s"] > 0
    counts = ("killer_starts", "records", "good_total", "good_done", "good_charged", "good_run_twice")
    assert [found[key] for key in counts] == [3, 3, 20, 20, 0, 0]


def test_roll_out_under_load_charges_repeats_and_loses_nothing() -> None:
    found = figures("restart")
    assert found["throughput_ratio"] > 0
    assert [found[key] for key in ("charged", "run_twice", "lost")] == [0, 0, 0]


def test_recycling_charges_repeats_and_loses_nothing_and_takes_no_slot_away() -> None:
    found = figures("recycle")
    assert min(found["throughput_ratio"], found["no_op_ratio"], found["slot_refill_p99_ms"]) > 0
    assert found["recycles"] > 0
    assert [found[key] for key in ("charged", "run_twice", "lost", "away_share_max")] == [0, 0, 0, 0]


def test_death_of_the_broker_under_load_charges_repeats_and_loses_nothing() -> None:
    found = figures("recovery")
    assert found["accepted"] >= 40
    assert found["outage_s"] > found["broker_away_s"] > 0
    assert [found[key] for key in ("charged", "run_twice", "lost")] == [0, 0, 0]
