"""The README says what the results say; pictures and table are made of them and of nothing else."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks import growth, report
from benchmarks.__main__ import BENCHMARKS
from benchmarks.limit import ceiling
from benchmarks.plots import Bars, Lines, told
from benchmarks.targets import ROWS

STORM: dict[str, Any] = {
    "killer_starts": 3,
    "records": 3,
    "good_total": 20,
    "good_done": 20,
    "good_charged": 0,
    "time_ratio_to_clean": 1.1,
    "alert_after_s": 0.3,
    "peers": {"celery": {"killer_starts": 19}},
}
MACHINE = {"cores": 2, "load_average": [0.1, 0.2, 0.3], "python": "3.11.7", "rabbitmq": "3.10.8"}


def _documents(**figures: Any) -> dict[str, dict[str, Any]]:
    document = {"figures": STORM | figures, "machine": MACHINE, "form": "quick", "at": "2026-12-01 09:00 UTC"}
    return {"storm": document}


@pytest.mark.parametrize("page", report.PAGES, ids=lambda page: page.name)
def test_a_page_says_what_the_results_say(page: Path) -> None:
    text = page.read_text("utf-8")
    assert report.written(text, report.PAGES[page](report.read())) == text


def test_the_pictures_show_what_the_results_say() -> None:
    drawn = report.pictures(report.read())
    assert {path.name: path.read_text("utf-8") for path in report.RESULTS.glob("*.svg")} == drawn


def test_a_target_is_reached_or_missed_by_its_figures() -> None:
    assert "| 3 starts, 3 records, 20 of 20 good done" in report.table(_documents())
    assert "| reached |" in report.table(_documents())
    assert "| missed |" in report.table(_documents(killer_starts=4))
    assert "| missed |" in report.table(_documents(good_done=19))


def test_only_what_was_measured_has_a_row() -> None:
    assert report.table(_documents()).count("| reached |") == 1
    assert report.table({}).splitlines()[:2] == ["| what | target | measured | |", "|---|---|---|---|"]


def test_every_row_is_about_a_benchmark_that_there_is() -> None:
    assert {row.benchmark for row in (*ROWS, *growth.ROWS)} <= {name.replace(" --", "-") for name in BENCHMARKS}


def test_a_page_without_marks_is_not_written_over() -> None:
    with pytest.raises(ValueError, match="no marks"):
        report.written("# Benchmarks\n", "a table\n")


def test_a_picture_is_well_formed_whatever_its_names_are() -> None:
    bars = Bars(title='a < b & "c"', unit="µs", values={"<ours>": 3.0, "theirs": 1234.5}, ours=frozenset({"<ours>"}))
    lines = Lines(title="over time", unit="a second", step=10, lines={"one": [0.0, 5.0, 2.5], "other": [0.0, 1.0, 9.0]})
    for picture in (bars, lines, Lines(title="nothing", unit="", step=1, lines={"none": [0.0]})):
        root = ET.fromstring(picture.svg())
        assert root.tag.endswith("svg")
    assert "1,234" in bars.svg()


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0, "0"), (0.01234, "0.0123"), (2.0, "2"), (12.34, "12.3"), (999.6, "1,000"), (1234567.0, "1,234,567")],
    ids=["zero", "small", "whole", "tens", "rounded up", "large"],
)
def test_numbers_are_told_with_three_digits(value: float, words: str) -> None:
    assert told(value) == words


def test_without_a_compiler_the_limit_is_not_measured_and_the_reason_is_told() -> None:
    assert ceiling.why_missing(compiler="no-such-compiler") == "there is no no-such-compiler to compile it"
    assert ceiling.why_missing(compiler="sh", headers=()) == "librabbitmq-dev is not installed"


def test_results_are_json_that_names_its_form_and_machine() -> None:
    for path in report.RESULTS.glob("*.json"):
        document = json.loads(path.read_text("utf-8"))
        assert {"benchmark", "figures", "machine", "form", "at"} <= document.keys()
