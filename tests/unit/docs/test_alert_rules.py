"""The rules for Prometheus that the pages offer are about metrics that there are, and say what to do."""

import re

import yaml

from tests.support.program import ROOT
from tests.unit.docs import pages

RULES = ROOT / "docs/alerts.yml"


def test_every_rule_is_about_a_metric_that_is_explained_and_has_words_for_people() -> None:
    operations = pages.text_of(ROOT / "docs/operations.md")
    (group,) = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    names = [rule["alert"] for rule in group["rules"]]
    assert len(set(names)) == len(names)
    for rule in group["rules"]:
        metrics = re.findall(r"lazaretto_\w+", rule["expr"])
        assert all(f"`{metric}`" in operations for metric in metrics), rule
        assert metrics or "up{" in rule["expr"]
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"]["summary"].endswith(".")
