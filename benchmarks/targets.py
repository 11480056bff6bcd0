"""What the product has set out to reach, row by row, and what a result says about it. Pure.

Owns the table's words and limits. Measures nothing, and reads nothing but figures that benchmarks have written.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.plots import told

Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One target."""

    what: str
    target: str
    benchmark: str
    measured: Callable[[Figures], str]
    is_reached: Callable[[Figures], bool]


def _against(figures: Figures, figure: str) -> str:
    peers = {name: us for name, us in figures["peers"].items() if name != "aiohttp, bare"}
    named = ", ".join(f"{name} {told(us)}" for name, us in sorted(peers.items(), key=lambda peer: peer[1]))
    return f"{told(figures[figure])} µs (beside it: {named or 'nobody'})"


def _is_ahead(figures: Figures, figure: str) -> bool:
    return all(figures[figure] < us for name, us in figures["peers"].items() if name != "aiohttp, bare")


def _times(figure: str) -> Callable[[Figures], str]:
    return lambda found: f"{told(found[figure])} ×" if found.get(figure) is not None else "not measured beside it"


def _counts(*names: str) -> Callable[[Figures], str]:
    return lambda found: ", ".join(f"{found[name]:,} {name.replace('_', ' ')}" for name in names)


def _no(*names: str) -> Callable[[Figures], bool]:
    return lambda found: not any(found[name] for name in names)


def _stormed(found: Figures) -> str:
    return (
        f"{found['killer_starts']} starts, {found['records']} records,"
        f" {found['good_done']} of {found['good_total']} good done, {found['good_charged']} charged,"
        f" {told(found['time_ratio_to_clean'])} × the time, alert after {told(found['alert_after_s'])} s"
    )


def _survived(found: Figures, *, most: float) -> bool:
    return (
        found["killer_starts"] == found["records"] == 3
        and found["good_done"] == found["good_total"]
        and not found["good_charged"]
        and found["time_ratio_to_clean"] <= most
    )


ROWS: Final = (
    Row(
        what="door, 1 KiB: processor time of a request with full preflight and confirmed quorum publish",
        target="≤ 100 µs, ahead of every peer",
        benchmark="admission",
        measured=lambda found: _against(found, "us_per_request"),
        is_reached=lambda found: found["us_per_request"] <= 100 and _is_ahead(found, "us_per_request"),
    ),
    Row(
        what="its rate beside aiohttp + aio-pika, and beside an aiohttp that only answers",
        target="≥ 2.2 × and ≥ 0.55 ×",
        benchmark="admission",
        measured=lambda found: f"{told(found['rate_ratio_to_plain'])} × and {told(found['rate_ratio_to_bare'])} ×",
        is_reached=lambda found: found["rate_ratio_to_plain"] >= 2.2 and found["rate_ratio_to_bare"] >= 0.55,
    ),
    Row(
        what="door, 16 KiB: processor time beside its own 1 KiB, rate beside aiohttp + aio-pika",
        target="≤ 1.3 × and ≥ 2 ×",
        benchmark="admission",
        measured=lambda found: (
            f"{told(found['us_per_request_16k'] / found['us_per_request'])} × and"
            f" {_times('rate_ratio_to_plain_16k')(found)}"
        ),
        is_reached=lambda found: (
            found["us_per_request_16k"] <= 1.3 * found["us_per_request"]
            and found.get("rate_ratio_to_plain_16k", 0) >= 2
        ),
    ),
    Row(
        what="door, p99 at 70 % of its rate beside the p99 of the broker's confirms, open loop",
        target="≤ 2 ×",
        benchmark="admission",
        measured=_times("p99_ratio_to_confirm"),
        is_reached=lambda found: found.get("p99_ratio_to_confirm", 9) <= 2,
    ),
    Row(
        what="door, two processes beside one",
        target="≥ 1.7 × where two cores are free",
        benchmark="scale",
        measured=_times("door_ratio_2_to_1"),
        is_reached=lambda found: found["door_ratio_2_to_1"] >= 1.7,
    ),
    Row(
        what="others' p99 beside hostile bodies; lag of the loop, p99.9; 5xx but prompt 503",
        target="≤ 3 ×, ≤ 50 ms, 0",
        benchmark="hostile",
        measured=lambda found: (
            f"{told(found['others_p99_ratio'])} ×, {told(found['loop_lag_p999_ms'])} ms, {found['errors_5xx']}"
        ),
        is_reached=lambda found: (
            found["others_p99_ratio"] <= 3 and found["loop_lag_p999_ms"] <= 50 and not found["errors_5xx"]
        ),
    ),
    Row(
        what="door, memory with its examiner after hostile requests",
        target="≤ 120 MiB, not growing",
        benchmark="hostile",
        measured=lambda found: f"{told(found['rss_mib'])} MiB, grown by {told(found['rss_growth_mib'])}",
        is_reached=lambda found: found["rss_mib"] <= 120 and found["rss_growth_mib"] <= 5,
    ),
    Row(
        what="door, memory after a long row of requests; while 1,000 clients hold an upload open",
        target="≤ 120 MiB, flat; bounded",
        benchmark="memory",
        measured=lambda found: (
            f"{told(found['rss_mib'])} MiB after {found['requests']:,}, grown by {told(found['rss_growth_mib'])};"
            f" {told(found['slow_uploads_rss_mib'])} MiB"
        ),
        is_reached=lambda found: (
            found["rss_mib"] <= 120
            and found["rss_growth_mib"] <= 5
            and found["slow_uploads_rss_mib"] <= found["rss_mib"] + 64  # LAZARETTO_MAX_INFLIGHT_BYTES
        ),
    ),
    Row(
        what="consumer inline, an item that does nothing",
        target="≤ 90 µs",
        benchmark="consume",
        measured=lambda found: _against(found, "inline_us_per_item"),
        is_reached=lambda found: found["inline_us_per_item"] <= 90,
    ),
    Row(
        what="consumer with isolated workers, supervisor and workers together",
        target="≤ 250 µs, ≥ 2.2 × Celery's rate",
        benchmark="consume",
        measured=lambda found: (
            f"{told(found['isolated_us_per_item'])} µs, {_times('isolated_rate_ratio_to_celery')(found)}"
        ),
        is_reached=lambda found: (
            found["isolated_us_per_item"] <= 250 and (found["isolated_rate_ratio_to_celery"] or 0) >= 2.2
        ),
    ),
    Row(
        what="what isolation adds to the time of a run, median",
        target="≤ 300 µs",
        benchmark="isolation",
        measured=lambda found: f"{told(found['added_us_p50'])} µs",
        is_reached=lambda found: found["added_us_p50"] <= 300,
    ),
    Row(
        what="memory of an idle worker that it shares with nobody",
        target="≤ 8 MiB",
        benchmark="consume",
        measured=lambda found: f"{told(found['idle_worker_mib'])} MiB",
        is_reached=lambda found: 0 < found["idle_worker_mib"] <= 8,
    ),
    Row(
        what="worker killed: until the next run in that slot, p99",
        target="≤ 100 ms",
        benchmark="recycle",
        measured=lambda found: f"{told(found['slot_refill_p99_ms'])} ms",
        is_reached=lambda found: found["slot_refill_p99_ms"] <= 100,
    ),
    Row(
        what="recycling: rate beside never recycling; slots away; charged, lost, run twice",
        target="nothing but a little time",
        benchmark="recycle",
        measured=lambda found: (
            f"{told(found['throughput_ratio'])} ×; {told(found['away_share_max'])}; "
            + _counts("charged", "lost", "run_twice")(found)
        ),
        is_reached=_no("away_share_max", "charged", "lost", "run_twice"),
    ),
    Row(
        what="storm: an item that kills its worker",
        target="3 starts, all good done, ≤ 1.15 × the time, alert within 2 s",
        benchmark="storm",
        measured=_stormed,
        is_reached=lambda found: _survived(found, most=1.15) and found["alert_after_s"] <= 2,
    ),
    Row(
        what="storm: one that kills its whole node each time",
        target="3 starts, all good done, ≤ 1.5 × the time",
        benchmark="storm-node",
        measured=_stormed,
        is_reached=lambda found: _survived(found, most=1.5),
    ),
    Row(
        what="roll-out under load",
        target="0 charged, 0 run twice, 0 lost, ≥ 0.85 × the rate",
        benchmark="restart",
        measured=lambda found: (
            _counts("charged", "run_twice", "lost")(found) + f", {told(found['throughput_ratio'])} × the rate"
        ),
        is_reached=lambda found: _no("charged", "run_twice", "lost")(found) and found["throughput_ratio"] >= 0.85,
    ),
    Row(
        what="broker killed and started again under load",
        target="0 lost, 0 charged, consuming within 10 s of its return",
        benchmark="recovery",
        measured=lambda found: (
            _counts("accepted", "lost", "run_twice", "charged")(found)
            + f"; {told(found['run_after_broker_s'])} s after its return"
        ),
        is_reached=lambda found: _no("lost", "charged")(found) and found["run_after_broker_s"] <= 10,
    ),
    Row(
        what="items parked in lane and delay queues: broker's memory, cost of a claim beside empty queues",
        target="bounded, unchanged",
        benchmark="backlog",
        measured=lambda found: (
            f"{found['parked']:,} items, {told(found['broker_mib_full'])} MiB"
            f" ({told(found['broker_bytes_per_item'])} bytes each), {told(found['claim_us_ratio'])} ×"
        ),
        is_reached=lambda found: found["claim_us_ratio"] <= 1.15 and found["broker_bytes_per_item"] <= 1024,
    ),
    Row(
        what="station, items a second into SQLite; journal events a second and core",
        target="≥ 2,000 and ≥ 3,000",
        benchmark="station",
        measured=lambda found: f"{told(found['items_per_s'])} and {told(found['events_per_core_s'])}",
        is_reached=lambda found: found["items_per_s"] >= 2000 and found["events_per_core_s"] >= 3000,
    ),
    Row(
        what="the desk's list of what is in quarantine, median",
        target="≤ 200 ms over 100,000 items",
        benchmark="station",
        measured=lambda found: f"{told(found['desk_page_ms'])} ms over {found['desk_items']:,} items",
        is_reached=lambda found: found["desk_page_ms"] <= 200 and found["desk_items"] >= 100_000,
    ),
    Row(
        what="scale-out: four nodes beside one, handlers that wait; the best of all nodes beside a consumer in C",
        target="grows up to ≥ 0.6 of it",
        benchmark="scale",
        measured=lambda found: f"{told(found['waiting_ratio_most_to_1'])} ×; {_times('node_share_of_limit')(found)}",
        is_reached=lambda found: found["waiting_ratio_most_to_1"] >= 3 and found.get("node_share_of_limit", 0) >= 0.6,
    ),
    Row(
        what="1,000 nodes, on paper: retries in any second of 8,000 that failed in one; workers recycled in any second",
        target="no wave",
        benchmark="fleet",
        measured=lambda found: (
            f"{found['retries_peak_per_s']} (without jitter {found['retries_peak_per_s_without_jitter']:,});"
            f" {told(found['recycles_peak_share'] * 100)} %"
        ),
        is_reached=lambda found: (
            found["retries_peak_per_s"] <= found["items_failed_at_once"] / 15 and found["recycles_peak_share"] <= 0.02
        ),
    ),
)
