"""The station's numbers for Prometheus, as the store has them at the moment they are asked for.

Owns the metric names of the station. What has happened is counted in the store by whoever does it, and what is there
is asked of indexes: a restart loses nothing, decisions made in other processes count, and what is long over costs
nothing. No ticket, client or request is ever a label.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.station import caseload, escalations, tallying
from gateway.station.agreement import Finding, Mismatch
from gateway.station.caseload import Load
from gateway.station.holding import AlertEvent
from gateway.station.store import Store
from gateway.station.tables.alerts import alerts, notices
from gateway.station.tables.audit import audit
from gateway.station.tables.callbacks import callbacks
from gateway.station.tables.items import spooled
from gateway.station.tables.refusals import refusal_counts

_REPLAYS = {"replay": "begun", "replay resumed": "resumed", "replay not sent": "not_sent"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was counted; every sequence holds rows of labels and a number."""

    by_state: Mapping[tuple[str, str], int]
    """By state and owner."""
    loads: Sequence[Load]
    """What waits for whom."""
    acts: Sequence[Any]
    lag_seconds: float
    spooled: int
    refusals: Sequence[Any] = ()
    surges: Sequence[Any] = ()
    callbacks: Sequence[Any] = ((0, 0, 0),)
    """Sent, dead, and tries that failed."""
    callback_lag_seconds: float = 0.0
    kept: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """What is kept instead of counted, by figure and label; empty where nothing has happened yet."""
    escalations_open: int = 0
    now: float = 0.0
    """Unix seconds."""


async def count(store: Store) -> Figures:
    """Count everything in one transaction."""
    number = sa.func.count()
    now = time.time()
    async with store.reading() as transaction:

        async def rows(query: sa.Select[Any]) -> Sequence[Any]:
            found: Sequence[Any] = (await transaction.execute(query)).all()
            return found

        waiting = await caseload.loads(transaction, now)
        owed = [await transaction.scalar(_oldest_owed(table)) for table in (alerts, notices)]
        open_callback = sa.and_(callbacks.c.sent_at.is_(None), callbacks.c.dead_at.is_(None))
        untold = await transaction.scalar(sa.select(sa.func.min(callbacks.c.created_at)).where(open_callback))
        told = sa.select(
            sa.func.count(callbacks.c.sent_at),
            sa.func.count(callbacks.c.dead_at),
            sa.func.coalesce(sa.func.sum(callbacks.c.tries), 0) - sa.func.count(callbacks.c.sent_at),
        )
        return Figures(
            by_state=await caseload.states(transaction, [load.owner for load in waiting]),
            loads=waiting,
            acts=await rows(sa.select(audit.c.act, number).group_by(audit.c.act)),
            lag_seconds=max((now - since for since in owed if since is not None and since < now), default=0.0),
            refusals=await rows(
                sa.select(refusal_counts.c.rule, sa.func.sum(refusal_counts.c.number)).group_by(refusal_counts.c.rule)
            ),
            surges=await rows(
                sa.select(notices.c.subject, sa.func.count(notices.c.window.distinct()))
                .filter_by(event=AlertEvent.REFUSALS_SURGED.value)
                .group_by(notices.c.subject)
            ),
            spooled=await transaction.scalar(sa.select(number).select_from(spooled)) or 0,
            escalations_open=await escalations.count_open(transaction),
            callbacks=(await transaction.execute(told)).all(),
            callback_lag_seconds=0.0 if untold is None else max(0.0, now - untold),
            kept=await tallying.read(transaction),
            now=now,
        )


def _oldest_owed(table: sa.Table) -> sa.Select[Any]:
    owed = (table.c.sent_at.is_(None), table.c.retired_at.is_(None))
    return sa.select(sa.func.min(table.c.created_at)).where(*owed)


def render(figures: Figures, findings: Sequence[Finding] = ()) -> bytes:
    """Return the figures, and in what queue, store and journal differed last, in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(_Counted(figures))
    disagreement = Gauge(
        "lazaretto_reconcile_mismatch", "Tickets of which queue, store and journal differ.", ["what"], registry=registry
    )
    numbers = {finding.mismatch: finding.number for finding in findings}
    for mismatch in Mismatch:
        disagreement.labels(mismatch.value).set(numbers.get(mismatch, 0))
    return generate_latest(registry)


class _Counted(Collector):
    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterable[Metric]:
        figures = self._figures
        quarantined = CounterMetricFamily(
            "lazaretto_quarantined", "Items taken into quarantine.", labels=["kind", "reason"]
        )
        for label, number in sorted(_kept(figures, tallying.QUARANTINED).items()):
            quarantined.add_metric(tallying.parts(label), number)
        reported = CounterMetricFamily("lazaretto_journal_events", "Events of the journal taken in.", labels=["event"])
        for name, number in sorted(_kept(figures, tallying.EVENTS).items()):
            reported.add_metric([name], number)
        replays = CounterMetricFamily("lazaretto_replays", "Replays by result.", labels=["result"])
        for act, number in figures.acts:
            if act in _REPLAYS:
                replays.add_metric([_REPLAYS[act]], number)
        sent = _alerts(figures)
        lag = GaugeMetricFamily("lazaretto_alert_lag_seconds", "Age of the oldest alert that is still owed.")
        lag.add_metric([], figures.lag_seconds)
        ((sent_callbacks, dead, failed),) = figures.callbacks
        called = CounterMetricFamily(
            "lazaretto_callbacks", "Callbacks sent, given up, and tries that failed.", labels=["result"]
        )
        for result, count in (("sent", sent_callbacks), ("dead", dead), ("failed", failed)):
            called.add_metric([result], count + _kept(figures, tallying.CALLBACKS).get(result, 0))
        call_lag = GaugeMetricFamily("lazaretto_callback_lag_seconds", "Age of the oldest callback that is still owed.")
        call_lag.add_metric([], figures.callback_lag_seconds)
        spool = GaugeMetricFamily("lazaretto_spooled_messages", "Raw files of messages that could not be stored.")
        spool.add_metric([], figures.spooled)
        refused = CounterMetricFamily("lazaretto_refusals", "Refusals on record, by rule.", labels=["rule"])
        for rule, number in figures.refusals:
            refused.add_metric([rule], number)
        surged = CounterMetricFamily(
            "lazaretto_refusal_surges", "Windows in which refusals by a rule surged.", labels=["rule"]
        )
        surges = Counter(_kept(figures, tallying.SURGES))
        for rule, number in figures.surges:
            surges[rule] += number
        for rule, number in sorted(surges.items()):
            surged.add_metric([rule], number)
        removed = CounterMetricFamily("lazaretto_removed_rows", "Rows that were over, and removed.", labels=["table"])
        for table, number in sorted(_kept(figures, tallying.REMOVED).items()):
            removed.add_metric([table], number)
        handed_over = GaugeMetricFamily(
            "lazaretto_escalations_open", "Items handed over to people outside, or about to be, and not decided."
        )
        handed_over.add_metric([], figures.escalations_open)
        alerting, calls = [sent, lag, handed_over], [called, call_lag]
        return [quarantined, reported, *_reviews(figures), replays, *alerting, spool, refused, surged, *calls, removed]


def _reviews(figures: Figures) -> list[Metric]:
    held = GaugeMetricFamily("lazaretto_quarantine_items", "Items by decision and owner.", labels=["state", "owner"])
    for (state, owner), number in sorted(figures.by_state.items()):
        held.add_metric([state, owner], number)
    oldest = GaugeMetricFamily(
        "lazaretto_quarantine_oldest_unreviewed_seconds",
        "Age of the oldest item that nobody has decided or put on hold.",
        labels=["owner"],
    )
    overdue = GaugeMetricFamily("lazaretto_quarantine_overdue", "Items past their deadline.", labels=["owner"])
    on_hold = GaugeMetricFamily("lazaretto_quarantine_on_hold", "Items that must wait.", labels=["owner"])
    for load in figures.loads:
        oldest.add_metric([load.owner], 0.0 if load.oldest is None else max(0.0, figures.now - load.oldest))
        overdue.add_metric([load.owner], load.overdue)
        on_hold.add_metric([load.owner], load.on_hold)
    return [held, oldest, overdue, on_hold]


def _alerts(figures: Figures) -> Metric:
    found = CounterMetricFamily("lazaretto_alerts", "Alerts by channel and result.", labels=["channel", "result"])
    told = {"sent": _kept(figures, tallying.SENT), "failed": _kept(figures, tallying.FAILED)}
    for channel in sorted({channel for numbers in told.values() for channel in numbers}):
        for result, numbers in told.items():
            found.add_metric([channel, result], numbers.get(channel, 0))
    return found


def _kept(figures: Figures, figure: str) -> Mapping[str, int]:
    return figures.kept.get(figure, {})
