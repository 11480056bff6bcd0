"""`python -m benchmarks.report`: makes tables and pictures of the results, and writes the tables where they belong.

Owns what is between the two marks in benchmarks/README.md and docs/scaling.md, and the SVG files beside the results.
Changes no figure.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks import growth
from benchmarks.plots import Bars, Lines
from benchmarks.programs import ROOT
from benchmarks.targets import ROWS

RESULTS: Final = ROOT / "benchmarks" / "results"
README: Final = ROOT / "benchmarks" / "README.md"
SCALING: Final = ROOT / "docs" / "scaling.md"
BEGIN: Final = "<!-- measured: `python -m benchmarks.report` writes what follows -->\n"
END: Final = "<!-- measured: end -->\n"

Documents = Mapping[str, Mapping[str, Any]]
"""What `--save` wrote, by the name of the file."""


def read(folder: Path = RESULTS) -> Documents:
    """Return all results of a folder."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))}


def table(documents: Documents) -> str:
    """Return the targets as a Markdown table, with what was measured and on what machine."""
    lines = ["| what | target | measured | |", "|---|---|---|---|"]
    for row in ROWS:
        if row.benchmark in documents:
            figures = documents[row.benchmark]["figures"]
            verdict = "reached" if row.is_reached(figures) else "missed"
            lines.append(f"| {row.what} | {row.target} | {row.measured(figures)} | {verdict} |")
    lines += ["", *(_machine(name, document) for name, document in documents.items())]
    return "\n".join(lines) + "\n"


def _machine(name: str, document: Mapping[str, Any]) -> str:
    machine = document["machine"]
    load = ", ".join(map(str, machine["load_average"]))
    pace = f" ({machine['loop_ns']} ns for a turn of a plain loop)" if "loop_ns" in machine else ""
    return (
        f"* `{name}`, {document['form']} form, {document['at']}: {machine['cores']} cores, load average {load}, Python"
        f" {machine['python']}{pace}, RabbitMQ {machine['rabbitmq']}"
    )


PAGES: Final = {README: table, SCALING: growth.table}
"""What each page has between its marks."""


def written(page: str, between: str) -> str:
    """Return a page with other text between its marks; raises ValueError without marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no marks between which the table belongs")
    return f"{before}{BEGIN}\n{between}\n{END}{after}"


def pictures(documents: Documents) -> dict[str, str]:
    """Return SVG by the name of its file."""
    drawn: dict[str, Bars | Lines] = {}
    for name, document in documents.items():
        drawn |= _OF.get(name, lambda _: {})(document["figures"])
    return {f"{name}.svg": picture.svg() for name, picture in drawn.items()}


def _admission(found: Mapping[str, Any]) -> dict[str, Bars | Lines]:
    values = {"ours": found["us_per_request"], **found["peers"]}
    if "broker_limit_us" in found:
        values["publisher in C"] = found["broker_limit_us"]["32"]
    return {"admission": _ordered("Door: one request, 1 KiB", "processor time of the door, µs", values, "ours")}


def _consume(found: Mapping[str, Any]) -> dict[str, Bars | Lines]:
    values = {"inline": found["inline_us_per_item"], "isolated": found["isolated_us_per_item"], **found["peers"]}
    if "broker_limit_us" in found:
        values["consumer in C"] = found["broker_limit_us"]["32"]
    unit = "processor time of the consumer, µs"
    return {"consume": _ordered("Consumer: one item that does nothing", unit, values, "inline", "isolated")}


def _storm(found: Mapping[str, Any]) -> dict[str, Bars | Lines]:
    values = {"ours": found["killer_starts"]} | {name: peer["killer_starts"] for name, peer in found["peers"].items()}
    title = "Storm: how often an item that kills its worker is started"
    return {"storm": _ordered(title, "starts; ours ends, the others' grow with time", values, "ours")}


def _scale(found: Mapping[str, Any]) -> dict[str, Bars | Lines]:
    waiting = {f"{nodes} nodes, waiting": rate for nodes, rate in found["waiting_items_per_s"].items()}
    nothing = {f"{nodes} nodes, no-op": rate for nodes, rate in found["node_items_per_s"].items()}
    doors = {f"{doors} door processes": rate for doors, rate in found["door_requests_per_s"].items()}
    limit = {
        f"{name} in C": found[f"broker_limit_{name}_per_s"]
        for name in ("publish", "consume")
        if f"broker_limit_{name}_per_s" in found
    }
    ours = frozenset({*waiting, *nothing, *doors})
    values = {**waiting, **nothing, **doors, **limit}
    return {"scale": Bars(title="Scale: more of the same on one machine", unit="a second", values=values, ours=ours)}


def _fleet(found: Mapping[str, Any]) -> dict[str, Bars | Lines]:
    lines = found["series"]
    both = {name: [name, f"{name}, no jitter"] for name in ("retries", "recycles")}
    title = f"On paper: {found['nodes']:,} nodes, "
    return {
        "fleet-retries": Lines(
            title=f"{title}{found['items_failed_at_once']:,} items failed in one moment",
            unit="retries a second",
            step=1,
            lines={name: lines[name] for name in both["retries"]},
        ),
        "fleet-recycles": Lines(
            title=f"{title}{found['workers']:,} workers started in one moment",
            unit="workers recycled a second",
            step=10,
            lines={name: lines[name] for name in both["recycles"]},
        ),
        "fleet-calls": Lines(
            title=f"{title}a dependency is down for five minutes",
            unit="calls a second that it sees",
            step=10,
            lines={"calls": lines["calls"]},
        ),
    }


def _ordered(title: str, unit: str, values: Mapping[str, float], *ours: str) -> Bars:
    ordered = dict(sorted(values.items(), key=lambda value: value[1]))
    return Bars(title=title, unit=unit, values=ordered, ours=frozenset(ours))


_OF: Final = {"admission": _admission, "consume": _consume, "storm": _storm, "scale": _scale, "fleet": _fleet}


def main(argv: list[str]) -> int:
    """Write pictures and tables."""
    argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__).parse_args(argv)
    documents = read()
    for name, svg in pictures(documents).items():
        (RESULTS / name).write_text(svg, "utf-8")
    for page, between in PAGES.items():
        page.write_text(written(page.read_text("utf-8"), between(documents)), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
