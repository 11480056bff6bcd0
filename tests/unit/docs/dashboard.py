"""The dashboard for Grafana, docs/dashboard.json, as a table of its panels.

Owns that file: `python -m tests.unit.docs.dashboard` writes it anew, and tests say when that is due and that each of
its metrics is one that a program exports.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.support.program import ROOT

FILE: Final = ROOT / "docs/dashboard.json"
_COLUMNS: Final = 24
_HEIGHT: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel; `lines` are what it draws: an expression, and what its legend says."""

    title: str
    what: str
    lines: tuple[tuple[str, str], ...]
    unit: str = "short"
    width: int = 8
    kind: str = "timeseries"
    bad_from: float | None = None
    """Of a single number: from when on it is red."""


def _rate(metric: str, by: str, where: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{where}[$__rate_interval]))"


def _quantile(share: float, metric: str) -> str:
    return f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket[$__rate_interval])))"


ROWS: Final[dict[str, tuple[Panel, ...]]] = {
    "What needs a person": (
        Panel(
            title="Oldest undecided",
            what="How long the item waits that waits longest. The number to watch.",
            lines=(("max(lazaretto_quarantine_oldest_unreviewed_seconds)", ""),),
            unit="s",
            width=6,
            kind="stat",
            bad_from=86400,
        ),
        Panel(
            title="In quarantine",
            what="Items that nobody has decided.",
            lines=(('sum(lazaretto_quarantine_items{state=~"held|replaying"})', ""),),
            width=6,
            kind="stat",
        ),
        Panel(
            title="Past their deadline",
            what="Items that their owner was to have decided by now.",
            lines=(("sum(lazaretto_quarantine_overdue)", ""),),
            width=6,
            kind="stat",
            bad_from=1,
        ),
        Panel(
            title="Alerts owed since",
            what="Age of the oldest alert that is not out; above some minutes a channel is dead.",
            lines=(("max(lazaretto_alert_lag_seconds)", ""),),
            unit="s",
            width=6,
            kind="stat",
            bad_from=300,
        ),
        Panel(
            title="Taken into quarantine",
            what="By reason.",
            lines=((_rate("lazaretto_quarantined_total", "reason"), "{{reason}}"),),
            unit="ops",
        ),
        Panel(
            title="Waiting, by owner",
            what="Held and replaying.",
            lines=(('sum by (owner) (lazaretto_quarantine_items{state=~"held|replaying"})', "{{owner}}"),),
        ),
        Panel(
            title="Queue, store and journal disagree",
            what="Tickets of which they differ, as compared last.",
            lines=(("max by (what) (lazaretto_reconcile_mismatch)", "{{what}}"),),
        ),
    ),
    "Door": (
        Panel(
            title="Submissions",
            what="By their end; unavailable is a 503.",
            lines=((_rate("lazaretto_admission_requests_total", "outcome"), "{{outcome}}"),),
            unit="reqps",
        ),
        Panel(
            title="Refusals",
            what="By rule; a rising one says something about a client, or about a limit.",
            lines=((_rate("lazaretto_admission_refusals_total", "rule", '{mode="enforce"}'), "{{rule}}"),),
            unit="ops",
        ),
        Panel(
            title="Confirms",
            what="From publish to the broker's confirm.",
            lines=(
                (_quantile(0.5, "lazaretto_publish_confirm_seconds"), "half"),
                (_quantile(0.99, "lazaretto_publish_confirm_seconds"), "99 of 100"),
            ),
            unit="s",
        ),
        Panel(
            title="Waiting in the broker",
            what="Messages in both lanes.",
            lines=(("max(lazaretto_queued_messages)", "queued"),),
        ),
        Panel(
            title="Lag of the event loop",
            what="How late the door wakes: whether one request makes the others wait.",
            lines=((_quantile(0.999, "lazaretto_loop_lag_seconds"), "999 of 1000"),),
            unit="s",
        ),
        Panel(
            title="Broker, as the door sees it",
            what="Blocked 1: it takes nothing. Failures: publishes without a confirm.",
            lines=(
                ("max(lazaretto_broker_blocked)", "blocked"),
                (_rate("lazaretto_publish_failures_total", "reason"), "{{reason}}"),
            ),
        ),
    ),
    "Fleet": (
        Panel(
            title="Runs",
            what="By outcome.",
            lines=((_rate("lazaretto_runs_finished_total", "outcome"), "{{outcome}}"),),
            unit="ops",
        ),
        Panel(
            title="Charged attempts",
            what="Crashed, memory and lost over several kinds at once: a build is to blame, not a ticket.",
            lines=((_rate("lazaretto_charges_total", "outcome"), "{{outcome}}"),),
            unit="ops",
        ),
        Panel(
            title="Uncharged returns",
            what="Releases, outages, dependencies.",
            lines=((_rate("lazaretto_interruptions_total", "cause"), "{{cause}}"),),
            unit="ops",
        ),
        Panel(
            title="Run time",
            what="Wall clock of runs.",
            lines=(
                (_quantile(0.5, "lazaretto_run_seconds"), "half"),
                (_quantile(0.95, "lazaretto_run_seconds"), "95 of 100"),
            ),
            unit="s",
        ),
        Panel(
            title="Age at the start",
            what="Since an item was submitted, when a run of it starts.",
            lines=(
                (_quantile(0.5, "lazaretto_item_age_seconds"), "half"),
                (_quantile(0.95, "lazaretto_item_age_seconds"), "95 of 100"),
            ),
            unit="s",
        ),
        Panel(
            title="Slots",
            what="Away: no worker is there.",
            lines=(("sum by (state) (lazaretto_slots)", "{{state}}"),),
        ),
        Panel(
            title="Ready in the lanes",
            what="As the nodes see their queue.",
            lines=(("max by (lane) (lazaretto_lane_waiting)", "{{lane}}"),),
        ),
        Panel(
            title="Breakers",
            what="0 closed, 1 half-open, 2 open.",
            lines=(("max by (dependency) (lazaretto_breaker_state)", "{{dependency}}"),),
        ),
        Panel(
            title="Storm guard",
            what="1: a handler's build is stopped, since it kills its workers.",
            lines=(("max(lazaretto_storm_guard)", "stopped"),),
        ),
        Panel(
            title="Suspects and poison",
            what="Into isolation and out of it; items whose budget was used up.",
            lines=(
                (_rate("lazaretto_suspects_total", "verdict"), "{{verdict}}"),
                ("sum(rate(lazaretto_poison_items_total[$__rate_interval]))", "poison"),
            ),
            unit="ops",
        ),
    ),
    "Workers": (
        Panel(
            title="Workers that ended, an hour",
            what="recycle_...: planned. died, memory, deadline, silent: in the middle of a run.",
            lines=(("sum by (cause) (rate(lazaretto_worker_exits_total[1h])) * 3600", "{{cause}}"),),
        ),
        Panel(
            title="Memory of workers at their end",
            what="Private bytes at the last look.",
            lines=((_quantile(0.5, "lazaretto_worker_rss_at_exit_bytes"), "half"),),
            unit="bytes",
        ),
        Panel(
            title="Runs at their end",
            what="That a worker has had when it ends.",
            lines=((_quantile(0.5, "lazaretto_worker_runs_at_exit"), "half"),),
        ),
        Panel(
            title="Growth a run",
            what="Private memory, least squares. About 0 is well.",
            lines=(("lazaretto_worker_growth_bytes_per_run", "{{instance}}"),),
            unit="bytes",
        ),
        Panel(
            title="Limit that the growth suggests",
            what="Runs until the memory limit; 0: it need not matter.",
            lines=(("lazaretto_worker_suggested_runs", "{{instance}}"),),
        ),
        Panel(
            title="Mold",
            what="Resident memory; and workers beyond the slots, coming or leaving.",
            lines=(("lazaretto_mold_rss_bytes", "{{instance}}"),),
            unit="bytes",
        ),
    ),
    "Station": (
        Panel(
            title="Alerts",
            what="Sent, and tries that failed, by channel.",
            lines=((_rate("lazaretto_alerts_total", "channel, result"), "{{channel}} {{result}}"),),
            unit="ops",
        ),
        Panel(
            title="Replays",
            what="Begun, resumed, not sent.",
            lines=((_rate("lazaretto_replays_total", "result"), "{{result}}"),),
            unit="ops",
        ),
        Panel(
            title="Owed to people outside and to clients",
            what="Escalations that nobody has decided; age of the oldest callback that is owed, in seconds.",
            lines=(
                ("max(lazaretto_escalations_open)", "escalations"),
                ("max(lazaretto_callback_lag_seconds)", "callback, seconds"),
            ),
        ),
    ),
}


def exprs() -> Iterator[str]:
    """Yield every expression."""
    return (expr for panels in ROWS.values() for panel in panels for expr, _ in panel.lines)


def document() -> str:
    """Return the file's text."""
    panels: list[dict[str, Any]] = []
    y = 0
    for row, found in ROWS.items():
        place = {"x": 0, "y": y, "w": _COLUMNS, "h": 1}
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": row, "collapsed": False, "panels": [], "gridPos": place}
        )
        x, y = 0, y + 1
        for panel in found:
            if x + panel.width > _COLUMNS:
                x, y = 0, y + _HEIGHT
            place = {"x": x, "y": y, "w": panel.width, "h": _HEIGHT}
            panels.append({"id": len(panels) + 1, **_panel(panel), "gridPos": place})
            x += panel.width
        y += _HEIGHT
    whole = {
        "title": "Lazaretto",
        "uid": "lazaretto",
        "description": "Door, fleet and quarantine station. What the figures mean: docs/operations.md.",
        "tags": ["lazaretto"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]
        },
        "panels": panels,
    }
    return json.dumps(whole, indent=1) + "\n"


def _panel(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.bad_from is not None:
        steps.append({"color": "red", "value": panel.bad_from})
    targets = [
        {"refId": chr(ord("A") + number), "expr": expr, "legendFormat": legend or "__auto", "datasource": _SOURCE}
        for number, (expr, legend) in enumerate(panel.lines)
    ]
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.what,
        "datasource": _SOURCE,
        "targets": targets,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
    }


if __name__ == "__main__":
    FILE.write_text(document(), "utf-8")
