"""Each benchmark runs, with tiny numbers, and reports what its readers look for. No figure here is a time."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.support.program import ROOT

pytestmark = pytest.mark.usefixtures("broker")


def _figures(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments, "--tiny", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


@pytest.mark.parametrize("node", [(), ("--node",)], ids=["worker", "node"])
def test_killer_is_started_three_times_and_harms_nobody_else(node: tuple[str, ...]) -> None:
    found = _figures("storm", *node)
    assert found["time_ratio_to_clean"] > 0
    assert found["alert_after_s"] > 0
    counts = ("killer_starts", "records", "good_total", "good_done", "good_charged", "good_run_twice")
    assert [found[key] for key in counts] == [3, 3, 20, 20, 0, 0]


def test_roll_out_under_load_charges_repeats_and_loses_nothing() -> None:
    found = _figures("restart")
    assert found["throughput_ratio"] > 0
    assert [found[key] for key in ("charged", "run_twice", "lost")] == [0, 0, 0]


def test_recycling_charges_repeats_and_loses_nothing_and_takes_no_slot_away() -> None:
    found = _figures("recycle")
    assert min(found["throughput_ratio"], found["no_op_ratio"], found["slot_refill_p99_ms"]) > 0
    assert found["recycles"] > 0
    assert [found[key] for key in ("charged", "run_twice", "lost", "away_share_max")] == [0, 0, 0, 0]


def test_cost_of_an_item_is_measured_beside_a_bare_consumer() -> None:
    found = _figures("consume")
    assert min(found["inline_us_per_item"], found["isolated_us_per_item"], *found["items_per_s"].values()) > 0
    assert set(found["peers"]) == {"aio-pika"}  # its cost may be below one step of the kernel's clock


def test_cost_of_the_stations_intake_is_measured_beside_a_consumer_that_keeps_nothing() -> None:
    found = _figures("station")
    assert min(found["items_per_s"], found["events_per_s"], found["rate_ratio_to_bare"]) > 0


def test_cost_of_a_request_is_measured_beside_plain_doors() -> None:
    found = _figures("admission")
    keys = {
        "us_per_request",
        "plain_us_per_request",
        "rate_ratio_to_plain",
        "rate_ratio_to_bare",
        "us_per_request_16k",
        "p99_ms",
        "peers",
    }
    assert keys <= found.keys()
    assert min(found["us_per_request"], found["plain_us_per_request"], found["p99_ms"]) > 0


def test_harm_of_hostile_requests_is_measured_and_none_of_them_is_an_error() -> None:
    found = _figures("hostile")
    assert min(found["others_p99_ratio"], found["loop_lag_p999_ms"], found["generated_loop_lag_p999_ms"]) > 0
    assert found["errors_5xx"] == 0
    assert isinstance(found["rss_growth_mib"], float)
    assert sum(found["generated_statuses"].values()) == 60
