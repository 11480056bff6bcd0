"""The dashboard and the rules for Prometheus ask for metrics that the programs export, in the way that suits them."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.support.program import ROOT
from tests.unit.docs import dashboard, exported, pages

RULES = ROOT / "docs/alerts.yml"
METRIC = re.compile(r"\blazaretto_\w+")
GROUPED = re.compile(r"by \(([^)]*)\)")
MATCHED = re.compile(r"(lazaretto_\w+)\{([^}]*)\}")
OF_PROMETHEUS = {"instance", "job", "le"}


ALERTS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text("utf-8"))["groups"][0]["rules"]
EXPRS = sorted({*dashboard.exprs(), *(rule["expr"] for rule in ALERTS)})


def _declared(metric: str) -> tuple[str, str]:
    """Return the name and the type under which what is asked for is exported."""
    families = exported.families()
    for ending in ("", "_bucket", "_sum", "_count"):
        name = metric.removesuffix(ending)
        if metric.endswith(ending) and name in families and (not ending or families[name] == "histogram"):
            return name, families[name]
    return metric, "nothing that is exported"


def _labels(metric: str) -> set[str]:
    """Return the labels that the page's tables tell of a metric."""
    rows = [line for line in pages.text_of(ROOT / "docs/operations.md").splitlines() if line.startswith("|")]
    told = re.findall(rf"`{metric}` \{{([\w, ]*)\}}", "\n".join(rows))
    return {label for labels in told for label in re.split(r",\s*", labels)}


@pytest.mark.parametrize("expr", EXPRS)
def test_an_expression_asks_for_what_is_exported_and_a_counter_for_its_rate(expr: str) -> None:
    assert expr.count("(") == expr.count(")")
    found = METRIC.findall(expr)
    assert found or "up{" in expr
    for metric in found:
        name, kind = _declared(metric)
        assert kind in {"counter", "gauge", "histogram"}, f"{metric}: {kind}"
        is_rated = re.search(rf"(rate|increase)\({metric}\b[^()]*\[", expr) is not None
        assert is_rated == (kind != "gauge"), f"{name} is a {kind}"


@pytest.mark.parametrize("expr", EXPRS)
def test_an_expression_groups_and_selects_by_labels_that_there_are(expr: str) -> None:
    known = set[str]().union(*(_labels(_declared(metric)[0]) for metric in METRIC.findall(expr)))
    grouped = {label.strip() for labels in GROUPED.findall(expr) for label in labels.split(",")}
    assert grouped <= known | OF_PROMETHEUS
    for metric, matchers in MATCHED.findall(expr):
        matched = set(re.findall(r"(\w+)(?:=~|!=|=)", matchers))
        assert matched <= _labels(_declared(metric)[0]) | OF_PROMETHEUS


@pytest.mark.parametrize("rule", ALERTS, ids=[rule["alert"] for rule in ALERTS])
def test_an_alert_names_only_labels_that_its_expression_leaves(rule: dict[str, Any]) -> None:
    named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    left = set[str]().union(*(_labels(_declared(metric)[0]) for metric in METRIC.findall(rule["expr"]))) | OF_PROMETHEUS
    assert named <= (left if "sum(" not in rule["expr"] else set())


def test_the_file_is_what_its_table_makes() -> None:
    assert dashboard.FILE.read_text("utf-8") == dashboard.document(), "run: python -m tests.unit.docs.dashboard"


def _panels() -> Iterator[dict[str, Any]]:
    return (panel for panel in json.loads(dashboard.document())["panels"])


def test_panels_have_places_of_their_own_and_say_what_they_show() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in _panels():
        place = panel["gridPos"]
        mine = {(place["x"] + across, place["y"] + down) for across in range(place["w"]) for down in range(place["h"])}
        assert not cells & mine, panel["title"]
        assert max(across for across, _ in mine) < 24
        cells |= mine
        assert panel["type"] == "row" or panel["description"].endswith(".")
    assert len({panel["id"] for panel in _panels()}) == len(list(_panels()))
