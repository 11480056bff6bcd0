"""The life of a ticket on its page: each run an attempt or an interruption, charged or not, and why."""

from typing import Any

import pytest

from gateway.contract.outcomes import CHARGED, Outcome
from gateway.station.desk import timeline
from gateway.station.desk.timeline import GenerationView
from gateway.station.dossier import Dossier, Run


def _run(outcome: str, *, generation: int = 0, attempt: int = 1, **evidence: Any) -> Run:
    return Run(
        generation=generation,
        attempt=attempt,
        interruptions=0,
        outcome=outcome,
        node="n",
        worker=1,
        lane="work",
        started_at=1.0,
        seconds=1.0,
        evidence=evidence,
    )


def _dossier(*runs: Run, generation: int = 0) -> Dossier:
    return Dossier(
        ticket="t", kind="k", state="quarantined", attempts=1, generation=generation, client=None, updated_at=1.0,
        items=[], runs=runs, alerts=[], acts=[],
    )  # fmt: skip


def _generations(found: Dossier) -> list[GenerationView]:
    return timeline.generations(found, retention=86_400.0, now=10.0)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_is_told_as_charged_or_not_and_why(outcome: Outcome) -> None:
    (generation,) = _generations(_dossier(_run(outcome)))
    (view,) = generation.runs
    assert view.charged == (outcome in CHARGED)
    assert view.why != "its outcome is not known here"
    assert (generation.charged, generation.uncharged) == ((1, 0) if view.charged else (0, 1))
    assert view.title == ("Attempt 1" if view.charged or outcome is Outcome.SUCCEEDED else "Interruption")


def test_an_outcome_of_a_later_version_is_told_as_not_known() -> None:
    (generation,) = _generations(_dossier(_run("vanished")))
    assert generation.runs[0].why == "its outcome is not known here"


def test_generations_stand_newest_first_with_their_own_runs() -> None:
    found = _generations(_dossier(_run("failed"), _run("memory", generation=1), generation=2))
    assert [(view.number, len(view.runs)) for view in found] == [(2, 0), (1, 1), (0, 1)]


def test_long_evidence_is_a_text_of_its_own_and_bytes_are_told_as_sizes() -> None:
    evidence: dict[str, Any] = {
        "peak_rss": 3 << 20,
        "log_tail": "a\nb",
        "alongside": ["x", "y"],
        "progress": "",
        "exit_status": 0,
    }
    (generation,) = _generations(_dossier(_run("memory", **evidence)))
    (view,) = generation.runs
    assert dict(view.facts) == {"peak rss": "3.0 MiB", "alongside": "x, y", "exit status": "0"}
    assert view.texts == [("last lines of its log", "a\nb")]
