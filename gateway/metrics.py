"""The door's figures for Prometheus.

Owns names, labels and buckets. Never has a ticket, client or request id as a label, and bounds every label that a
client can choose.
"""

from dataclasses import dataclass, field
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from gateway.tally import Tally

MAX_KINDS: Final = 64
"""Kinds that get their own label value; clients choose them, so the rest share one."""
OTHER_KIND: Final = "other"

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series per label that nobody asks for

_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_LAGS: Final = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 5)
_BYTES: Final = tuple(1 << power for power in range(8, 25, 2))
_TOKENS: Final = tuple(1 << power for power in range(4, 20, 2))


def _counter(name: str, what: str, *labels: str) -> Counter:
    return Counter(f"lazaretto_{name}", what, labels, registry=None)


def _gauge(name: str, what: str, of_all: Literal["livesum", "livemax", "livemin"] = "livesum") -> Gauge:
    """Return a gauge; `of_all` says what several processes of a door come to."""
    return Gauge(f"lazaretto_{name}", what, registry=None, multiprocess_mode=of_all)


def _histogram(name: str, what: str, *labels: str, buckets: tuple[float, ...] = _SECONDS) -> Histogram:
    return Histogram(f"lazaretto_{name}", what, labels, buckets=buckets, registry=None)


@dataclass(frozen=True, slots=True)
class Metrics:
    """Every figure of one door."""

    requests: Counter = field(
        default_factory=lambda: _counter("admission_requests", "Submissions by their end.", "outcome", "kind")
    )
    refusals: Counter = field(
        default_factory=lambda: _counter("admission_refusals", "Violations found.", "rule", "mode")
    )
    callers_refused: Counter = field(
        default_factory=lambda: _counter("callers_refused", "Requests turned away for who sent them.", "reason")
    )
    repetitions: Counter = field(
        default_factory=lambda: _counter(
            "repetitions", "Submissions under a key or an id that was not new, or could not be looked up.", "result"
        )
    )
    reloads: Counter = field(
        default_factory=lambda: _counter("reloads", "Files read again while running.", "what", "result")
    )
    check_seconds: Histogram = field(
        default_factory=lambda: _histogram("admission_check_seconds", "Duration of a check.", "rule")
    )
    body_bytes: Histogram = field(
        default_factory=lambda: _histogram("admission_body_bytes", "Size of bodies, inflated.", buckets=_BYTES)
    )
    tokens: Histogram = field(
        default_factory=lambda: _histogram("admission_tokens", "Tokens of admitted tickets.", buckets=_TOKENS)
    )
    confirm_seconds: Histogram = field(
        default_factory=lambda: _histogram("publish_confirm_seconds", "From publish to the broker's confirm.")
    )
    publish_failures: Counter = field(
        default_factory=lambda: _counter("publish_failures", "Publishes without a confirm.", "reason")
    )
    deposits: Counter = field(
        default_factory=lambda: _counter(
            "deposits", "Submissions whose attachments were to be left in the depot.", "result"
        )
    )
    deposit_seconds: Histogram = field(
        default_factory=lambda: _histogram(
            "deposit_seconds", "Until a ticket's attachments were in the depot for good."
        )
    )
    blocked: Gauge = field(
        default_factory=lambda: _gauge("broker_blocked", "1 while the broker takes no publishes.", "livemax")
    )
    connected: Gauge = field(
        default_factory=lambda: _gauge("broker_connected", "1 while publishing is connected.", "livemin")
    )
    queued: Gauge = field(
        default_factory=lambda: _gauge("queued_messages", "Messages waiting in both lanes.", "livemax")
    )
    inflight_bytes: Gauge = field(default_factory=lambda: _gauge("inflight_bytes", "Bytes of requests in memory."))
    inflight_publishes: Gauge = field(
        default_factory=lambda: _gauge("inflight_publishes", "Publishes waiting for their confirm.")
    )
    events_dropped: Counter = field(
        default_factory=lambda: _counter("journal_events_dropped", "Journal events given up for lack of room.")
    )
    events_waiting: Gauge = field(
        default_factory=lambda: _gauge("journal_events_waiting", "Journal events not confirmed yet.")
    )
    waiting: Gauge = field(
        default_factory=lambda: _gauge("status_waiting", "Clients that wait for a ticket to change.")
    )
    waits: Counter = field(
        default_factory=lambda: _counter("status_waits", "Waits for a ticket to change, by their end.", "end")
    )
    connections: Gauge = field(default_factory=lambda: _gauge("connections", "Connections of clients that are open."))
    connections_ended: Counter = field(
        default_factory=lambda: _counter("connections_ended", "Connections ended for lack of room for all.", "why")
    )
    loop_lag: Histogram = field(
        default_factory=lambda: _histogram("loop_lag_seconds", "How late the event loop wakes.", buckets=_LAGS)
    )
    _kinds: set[str] = field(default_factory=set)
    _ends: dict[tuple[str, str], Counter] = field(default_factory=dict)
    _tallies: dict[Histogram, Tally] = field(default_factory=dict)

    def kind(self, name: str | None) -> str:
        """Return the label value for a kind, bounded in number."""
        if name is None:
            return OTHER_KIND
        if name not in self._kinds and len(self._kinds) < MAX_KINDS:
            self._kinds.add(name)
        return name if name in self._kinds else OTHER_KIND

    def submission(self, outcome: str, kind: str | None) -> Counter:
        """Return the counter of submissions that end so; each look-up in the library costs as much as ten counts."""
        label = self.kind(kind)
        found = self._ends.get((outcome, label))
        if found is None:
            found = self._ends[outcome, label] = self.requests.labels(outcome=outcome, kind=label)
        return found

    def tally(self, histogram: Histogram) -> Tally:
        """Return what stands before a histogram, or a child of one, that each request observes."""
        found = self._tallies.get(histogram)
        if found is None:
            found = self._tallies[histogram] = Tally(histogram)
        return found

    def settle(self) -> None:
        """Bring to account what tallies have kept; called at each beat of the door's pulse."""
        for tally in self._tallies.values():
            tally.settle()

    def exposition(self) -> bytes:
        """Return all figures, the process's own included, in Prometheus' text format."""
        self.settle()
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        for name in self.__slots__:
            metric = getattr(self, name)
            if isinstance(metric, Counter | Gauge | Histogram):
                registry.register(metric)
        return generate_latest(registry)
