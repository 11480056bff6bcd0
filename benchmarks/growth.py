"""What grows with what, by what benchmarks have written: the rows of the table in docs/scaling.md. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.plots import told

Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """One quantity and what it depends on."""

    what: str
    by: str
    benchmark: str
    measured: Callable[[Figures], str]


def _steps(figure: str) -> Callable[[Figures], str]:
    return lambda found: ", ".join(f"{size}: {told(value)}" for size, value in found[figure].items())


ROWS: Final = (
    Growth(
        what="processor time of the door, µs a request",
        by="size of the body",
        benchmark="admission",
        measured=lambda found: f"1 KiB: {told(found['us_per_request'])}, 16 KiB: {told(found['us_per_request_16k'])}",
    ),
    Growth(
        what="requests a second of the door",
        by="its processes",
        benchmark="scale",
        measured=_steps("door_requests_per_s"),
    ),
    Growth(
        what="items a second that do nothing",
        by="nodes",
        benchmark="scale",
        measured=_steps("node_items_per_s"),
    ),
    Growth(
        what="items a second that wait for 50 ms, 8 at once in each node",
        by="nodes",
        benchmark="scale",
        measured=_steps("waiting_items_per_s"),
    ),
    Growth(
        what="processor time of an item that does nothing, µs",
        by="kinds of tickets, each with a policy of its own",
        benchmark="scale",
        measured=_steps("kinds_us_per_item"),
    ),
    Growth(
        what="processor time of a claim, µs",
        by="items that lie in lane and delay queues",
        benchmark="backlog",
        measured=lambda found: (
            f"none: {told(found['claim_us_empty'])}, {found['parked']:,}: {told(found['claim_us_full'])}"
        ),
    ),
    Growth(
        what="the broker's memory, MiB",
        by="items that lie in lane and delay queues",
        benchmark="backlog",
        measured=lambda found: (
            f"none: {told(found['broker_mib_empty'])}, {found['parked']:,}: {told(found['broker_mib_full'])}"
        ),
    ),
    Growth(
        what="the desk's list, ms",
        by="items in quarantine",
        benchmark="station",
        measured=lambda found: f"{found['desk_items']:,}: {told(found['desk_page_ms'])}",
    ),
    Growth(
        what="calls a second of a dependency that is down",
        by="nodes: each probes for itself",
        benchmark="fleet",
        measured=lambda found: (
            f"{found['nodes']:,}: {told(found['probes_per_s'])} on average, {found['probes_peak_per_s']} at most"
        ),
    ),
    Growth(
        what="attempts that a deadly build costs",
        by="nodes that share a store",
        benchmark="fleet",
        measured=lambda found: f"1 or {found['nodes']:,}: {found['charged_by_deadly_build']}",
    ),
)


def table(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the rows whose benchmarks are in `documents`, as a Markdown table."""
    lines = ["| what grows | with what | measured |", "|---|---|---|"]
    for row in ROWS:
        if row.benchmark in documents:
            measured = row.measured(documents[row.benchmark]["figures"])
            lines.append(f"| {row.what} | {row.by} | {measured} |")
    return "\n".join(lines) + "\n"
