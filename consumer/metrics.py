"""The fleet's Prometheus metrics; never a ticket, customer or request id as a label."""

from functools import cache
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from consumer.suspicion import Suspicion
from consumer.verdict import Decision
from gateway.contract.journal import Verdict
from gateway.contract.outcomes import CHARGED, UNCHARGED, Outcome
from gateway.contract.topology import Lane

REGISTRY: Final = CollectorRegistry()

RUNS_STARTED = Counter("lazaretto_runs_started", "Runs begun", ["kind", "lane"], registry=REGISTRY)
RUNS_FINISHED = Counter("lazaretto_runs_finished", "Runs ended", ["kind", "outcome"], registry=REGISTRY)
RUN_SECONDS = Histogram(
    "lazaretto_run_seconds",
    "Wall clock of runs",
    buckets=(0.001, 0.01, 0.1, 0.5, 1, 5, 15, 60, 300, 1800),
    registry=REGISTRY,
)
ITEM_AGE = Histogram(
    "lazaretto_item_age_seconds",
    "Since its submission, at each start of an item",
    buckets=(0.1, 1, 5, 15, 60, 300, 1800, 3600, 21600, 86400, 604800),
    registry=REGISTRY,
)
CHARGES = Counter("lazaretto_charges", "Attempts used up", ["kind", "outcome"], registry=REGISTRY)
INTERRUPTIONS = Counter("lazaretto_interruptions", "Uncharged returns", ["kind", "cause"], registry=REGISTRY)
RECLAIMS = Counter(
    "lazaretto_reclaims", "Redeliveries closed before their next run", ["kind", "outcome"], registry=REGISTRY
)
FENCE_DROPS = Counter("lazaretto_fence_drops", "Copies dropped by the fence", registry=REGISTRY)
RETRY_DELAY = Histogram(
    "lazaretto_retry_delay_seconds",
    "Delays given to retried items",
    buckets=(0.1, 1, 10, 30, 60, 300, 1800, 3600, 86400),
    registry=REGISTRY,
)
SUSPECTS = Counter("lazaretto_suspects", "Items in and out of suspicion", ["verdict"], registry=REGISTRY)
POISON = Counter("lazaretto_poison_items", "Items whose budget was used up", ["kind"], registry=REGISTRY)
DISCARDED = Counter(
    "lazaretto_discarded",
    "Items that ended in a journal record, because their kind says so",
    ["kind", "reason"],
    registry=REGISTRY,
)
RELOADS = Counter("lazaretto_settings_reloads", "Policies read again on SIGHUP", ["result"], registry=REGISTRY)
WORKER_EXITS = Counter("lazaretto_worker_exits", "Workers that have ended", ["cause", "signal"], registry=REGISTRY)
WORKER_RUNS = Histogram(
    "lazaretto_worker_runs_at_exit",
    "Runs that a worker has had when it ends",
    buckets=(0, 1, 10, 50, 100, 250, 500, 1000, 5000, 20000),
    registry=REGISTRY,
)
WORKER_RSS = Histogram(
    "lazaretto_worker_rss_at_exit_bytes",
    "Private memory of a worker at its last look",
    buckets=tuple(size << 20 for size in (4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)),
    registry=REGISTRY,
)
WORKER_GROWTH = Gauge(
    "lazaretto_worker_growth_bytes_per_run", "Growth of private memory, least squares over workers", registry=REGISTRY
)
SUGGESTED_RUNS = Gauge(
    "lazaretto_worker_suggested_runs",
    "Runs until the memory limit at that growth; 0: it need not matter",
    registry=REGISTRY,
)
MOLD_RSS = Gauge("lazaretto_mold_rss_bytes", "Resident memory of the mold", registry=REGISTRY)
RECYCLING = Gauge("lazaretto_recycles_in_progress", "Workers beyond the slots, coming or leaving", registry=REGISTRY)
RECYCLE_PACE = Gauge(
    "lazaretto_recycle_interval_shrunk",
    "1 while workers are recycled after half as many runs as within the last day",
    registry=REGISTRY,
)
BREAKER_STATE = Gauge(
    "lazaretto_breaker_state", "Breakers: 0 closed, 1 half-open, 2 open", ["dependency"], registry=REGISTRY
)
STORM_GUARD = Gauge("lazaretto_storm_guard", "1 while the handler's build is stopped", registry=REGISTRY)
LANE_WAITING = Gauge("lazaretto_lane_waiting", "Messages ready in the lane's queue", ["lane"], registry=REGISTRY)
WATCHDOG_REBUILDS = Counter(
    "lazaretto_watchdog_rebuilds", "Sessions ended because nothing arrived although messages waited", registry=REGISTRY
)
SLOTS = Gauge("lazaretto_slots", "Places for runs", ["state"], registry=REGISTRY)


@cache
def _started(kind: str, lane: Lane) -> Counter:
    return RUNS_STARTED.labels(kind, lane)


@cache
def _finished(kind: str, outcome: Outcome) -> Counter:
    return RUNS_FINISHED.labels(kind, outcome)


def count_start(kind: str, lane: Lane, *, age: float | None) -> None:
    """Count one start under a bounded label for its kind; `age` in seconds, None where nobody knows it."""
    _started(kind, lane).inc()
    if age is not None:
        ITEM_AGE.observe(max(0.0, age))  # two machines' clocks


def count(kind: str, done: Decision, became: Suspicion | None) -> None:
    """Count one settled decision, and what `became` of a suspicion, under a bounded label for its kind."""
    if done.outcome is not None:
        _finished(kind, done.outcome).inc()
        if done.outcome in CHARGED:
            CHARGES.labels(kind, done.outcome).inc()
        elif done.outcome in UNCHARGED:
            INTERRUPTIONS.labels(kind, done.outcome).inc()
    if became is not None:
        SUSPECTS.labels(became).inc()
    if done.verdict in {Verdict.RETRY, Verdict.RELEASE}:
        RETRY_DELAY.observe(done.delay)
    elif done.verdict in {Verdict.QUARANTINE, Verdict.DISCARD}:
        POISON.labels(kind).inc()
    if done.verdict is Verdict.DISCARD:
        DISCARDED.labels(kind, done.reason or "-").inc()
