"""The reference pages leave nothing out: settings, metrics, headers, queues, outcomes, events, exit codes."""

import re

from consumer import metrics as node_metrics
from consumer.errors import Exit
from gateway.admission import Limits
from gateway.contract import knobs
from gateway.contract.journal import EventName
from gateway.contract.outcomes import Outcome, Reason, TicketState
from gateway.contract.topology import Lane, Topology
from gateway.metrics import Metrics
from gateway.station.figures import Figures, render
from gateway.station.holding import AlertEvent
from tests.support.program import ROOT
from tests.unit.docs import exported, pages, settings_table

OPERATIONS = pages.text_of(ROOT / "docs/operations.md")
PINNED = {
    "counter": "admission_requests_total admission_refusals_total publish_failures_total runs_started_total"
    " runs_finished_total charges_total interruptions_total reclaims_total fence_drops_total worker_exits_total"
    " suspects_total poison_items_total quarantined_total replays_total alerts_total",
    "gauge": "broker_blocked inflight_bytes slots worker_growth_bytes_per_run mold_rss_bytes recycles_in_progress"
    " breaker_state storm_guard quarantine_items quarantine_oldest_unreviewed_seconds alert_lag_seconds"
    " escalations_open reconcile_mismatch",
    "histogram": "admission_check_seconds admission_body_bytes admission_tokens publish_confirm_seconds run_seconds"
    " retry_delay_seconds worker_runs_at_exit worker_rss_at_exit_bytes item_age_seconds",
}
"""Names that stay, without their prefix: other people's dashboards and rules ask for them."""
PROTOCOL = pages.text_of(ROOT / "docs/protocol.md")


def _unnamed(values: object, text: str) -> set[str]:
    assert isinstance(values, set)
    assert values
    return {value for value in values if f"`{value}`" not in text}


def _metrics(exposition: bytes) -> set[str]:
    names = re.findall(r"^# HELP (lazaretto_\w+)", exposition.decode(), re.MULTILINE)
    return {name for name in names if not name.endswith("_created")}


def test_the_table_has_every_setting_with_its_default() -> None:
    assert settings_table.written() == settings_table.table(), "run `python -m tests.unit.docs.settings_table`"


def test_every_name_that_is_a_setting_is_read_by_some_program() -> None:
    read_before_any_program = {"config"}
    assert settings_table.fields().keys() | read_before_any_program == knobs.NAMES


def test_programs_that_share_a_setting_share_its_default() -> None:
    apart = {"node_name"}  # a machine runs several nodes, and each is a holder of its own
    shared = {name: readers for name, readers in settings_table.fields().items() if name not in apart}
    defaults = {name: {settings_table.default(info) for info in readers.values()} for name, readers in shared.items()}
    assert {name: found for name, found in defaults.items() if len(found) > 1} == {}


def test_door_and_node_check_with_the_same_limits() -> None:
    fields = settings_table.fields()
    for name in ("max_body_bytes", "max_tokens", "max_attachments"):
        assert {info.default for info in fields[name].values()} == {getattr(Limits(), name)}, name


def test_every_metric_is_listed() -> None:
    nothing = Figures(by_state={}, loads=(), acts=(), lag_seconds=0.0, spooled=0)
    node = {family.name + ("_total" if family.type == "counter" else "") for family in node_metrics.REGISTRY.collect()}
    assert _unnamed(_metrics(Metrics().exposition()) | _metrics(render(nothing)) | node, OPERATIONS) == set()


def test_the_names_that_dashboards_of_others_rely_on_are_exported() -> None:
    pinned = {f"lazaretto_{name}": kind for kind, names in PINNED.items() for name in names.split()}
    found = exported.families()
    assert {name: found.get(name) for name in pinned} == pinned


def test_every_exit_code_of_a_node_has_a_row() -> None:
    assert {int(row) for row in re.findall(r"^\| (\d) \|", OPERATIONS, re.MULTILINE)} == {code.value for code in Exit}


def test_every_outcome_reason_event_and_state_is_explained() -> None:
    values = {str(value) for kind in (Outcome, Reason, EventName, TicketState, AlertEvent) for value in kind}
    assert _unnamed(values, PROTOCOL) == set()


def test_an_operator_is_told_what_to_do_about_every_outcome_and_reason() -> None:
    _, _, section = OPERATIONS.partition("## How a run ends, and what to do")
    section, _, _ = section.partition("\n## ")
    rows = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    assert rows == set(Outcome)
    assert _unnamed({str(reason) for reason in Reason}, section) == set()


def test_every_header_is_listed() -> None:
    source = (ROOT / "gateway/contract/envelope.py").read_text("utf-8")
    assert _unnamed(set(re.findall(r'"(lz-[a-z-]+)"', source)), PROTOCOL) == set()


def test_every_queue_outside_the_ladder_and_every_argument_is_listed() -> None:
    queues = Topology().queues()
    arguments = {name for queue in queues for name in queue.arguments if name != "x-queue-type"}
    names = {queue.name for queue in queues if ".delay." not in queue.name}
    assert _unnamed(arguments | names, PROTOCOL) == set()


def test_the_example_of_the_ladder_is_what_the_ladder_does() -> None:
    route = Topology().to_delay(Lane.WORK, 5)
    assert f"`{route.key}`" in PROTOCOL
    assert f"`{route.exchange}`" in PROTOCOL
