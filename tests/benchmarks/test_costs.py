"""Benchmarks of costs run, with tiny numbers, and report what their readers look for. No figure here is a time."""

import pytest

from tests.benchmarks.running import figures

pytestmark = pytest.mark.usefixtures("broker")


def test_cost_of_an_item_is_measured_beside_a_bare_consumer() -> None:
    found = figures("consume")
    assert min(found["inline_us_per_item"], found["isolated_us_per_item"], *found["items_per_s"].values()) > 0
    assert set(found["peers"]) == {"aio-pika"}  # its cost may be below one step of the kernel's clock
    assert min(*found["broker_limit_per_s"].values(), found["idle_worker_mib"]) > 0


def test_cost_of_isolation_is_measured_beside_runs_that_have_none() -> None:
    found = figures("isolation")
    assert min(found["inline_us_per_run"], found["isolated_us_per_run"]) > 0
    assert {"added_us_per_run", "added_us_p50"} <= found.keys()


def test_cost_of_the_stations_intake_is_measured_beside_a_consumer_that_keeps_nothing() -> None:
    found = figures("station")
    assert min(found["items_per_s"], found["events_per_s"], found["rate_ratio_to_bare"], found["desk_page_ms"]) > 0


def test_cost_of_a_request_is_measured_beside_plain_doors() -> None:
    found = figures("admission")
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
    assert found["latency_ms"]["p50"] <= found["latency_ms"]["p99.9"] <= found["latency_ms"]["max"]
    assert min(found["broker_limit_per_s"].values()) > 0
    assert min(found["rate_ratio_to_plain_16k"], found["plain_us_per_request_16k"]) > 0
    assert found["wrk"]["requests_per_s"].keys() == {"ours", "aiohttp + aio-pika", "aiohttp, bare"}


def test_processes_and_nodes_are_measured_beside_the_brokers_own_limit() -> None:
    found = figures("scale")
    assert found["door_requests_per_s"].keys() == {"1", "2"}
    assert found["node_items_per_s"].keys() == found["waiting_items_per_s"].keys() == {"1", "2"}
    assert min(found["door_share_of_limit"], found["node_share_of_limit"]) > 0
    assert found["kinds_us_per_item"].keys() == {"1", "1000"}


def test_items_are_claimed_beside_those_that_lie_in_lane_and_ladder() -> None:
    found = figures("backlog")
    assert found["parked"] == 400
    assert found["depths"]["tickets.work"] == 200
    assert min(found["broker_mib_full"], found["claim_rate_ratio"]) > 0


def test_a_fleet_on_paper_comes_in_no_wave() -> None:
    found = figures("fleet")
    assert found["retries_peak_per_s"] < found["retries_peak_per_s_without_jitter"] / 10
    assert found["recycles_peak_share"] < found["recycles_peak_share_without_jitter"] / 10


def test_harm_of_hostile_requests_is_measured_and_none_of_them_is_an_error() -> None:
    found = figures("hostile")
    assert min(found["others_p99_ratio"], found["loop_lag_p999_ms"], found["generated_loop_lag_p999_ms"]) > 0
    assert found["errors_5xx"] == 0
    assert isinstance(found["rss_growth_mib"], float)
    assert sum(found["generated_statuses"].values()) == 60


def test_growth_of_a_door_is_measured_over_many_requests_and_under_slow_uploads() -> None:
    found = figures("memory")
    assert len(found["rss_mib_by_tenth"]) == 10
    assert min(found["rss_mib_ready"], found["rss_mib"], found["slow_uploads_rss_mib"]) > 0
    assert sum(found["slow_uploads_statuses"].values()) == 20
