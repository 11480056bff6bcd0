"""What people read about an item is one bounded, printable line, whatever came with it."""

import dataclasses
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.contract.outcomes import Outcome
from gateway.station import wording
from gateway.station.dossier import Item, Run
from gateway.station.holding import ItemState
from gateway.station.storable import document, parsed

_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=4
)
_names = st.sampled_from(
    ["error_type", "message", "cause", "signal", "exit_status", "code", "peak_rss", "progress", "detail"]
)


def _run(outcome: str = Outcome.MEMORY, evidence: dict[str, Any] | None = None) -> Run:
    return Run(
        generation=0,
        attempt=3,
        interruptions=0,
        outcome=outcome,
        node="n-1",
        worker=1,
        lane="suspects",
        started_at=1.0,
        seconds=2.25,
        evidence=evidence or {},
    )


def _item(detail: str | None = None) -> Item:
    return Item(
        ticket="9417",
        generation=0,
        kind="support.ticket",
        state=ItemState.HELD,
        reason="crashes_exhausted",
        detail=detail,
        malformed=False,
        attempts=3,
        crashes=3,
        interruptions=0,
        size=10,
        digest="d",
        content_type=None,
        admission=None,
        spool_path=None,
        submitted_at=None,
        arrived_at=0.0,
        decided_at=None,
        decided_by=None,
        removed_at=None,
        decision_reason=None,
    )


def test_an_alert_names_ticket_kind_attempts_reason_last_evidence_and_link() -> None:
    run = _run(evidence={"signal": 9, "peak_rss": 512 << 20, "progress": "prompt half built"})
    assert wording.quarantined(_item(), run, "http://desk/items/9417") == (
        "Ticket 9417 (support.ticket) is in quarantine after 3 attempts: crashes_exhausted."
        " Last run: memory, its worker went over its ceiling, signal 9 (SIGKILL), peak memory 512 MiB, after 2.2 s,"
        " on n-1, last words: 'prompt half built'. http://desk/items/9417"
    )


def test_an_item_that_never_ran_says_so() -> None:
    assert "It was never started." in wording.quarantined(_item(), None, "link")


def test_a_reported_failure_is_quoted_with_its_type() -> None:
    run = _run(Outcome.FAILED, {"error_type": "ValueError", "message": "no severity\nin ticket"})
    assert wording.sentence(run).startswith("failed, ValueError: no severity\\nin ticket, after 2.2 s")


def test_a_run_that_ends_a_suspicion_says_so() -> None:
    said = {"suspicion": "cleared"}
    assert wording.sentence(_run(Outcome.SUCCEEDED, said)) == "succeeded, cleared of suspicion, after 2.2 s, on n-1"
    assert "no suspect any more" in wording.sentence(_run(Outcome.FAILED, {"suspicion": "dropped"}))
    assert "suspi" not in wording.sentence(_run(Outcome.CRASHED, {"suspicion": "isolated"}))


def test_what_the_node_said_of_the_end_is_quoted_once() -> None:
    said = "used 512 MiB where 400 MiB is the limit; killed"
    text = wording.quarantined(_item(said), _run(evidence={"detail": said, "signal": 9}), "link")
    assert f"Last run: memory, {said}, after 2.2 s, on n-1." in text
    assert text.count(said) == 1


@given(evidence=st.dictionaries(_names, _json), outcome=st.sampled_from(Outcome), detail=st.none() | st.text())
def test_any_evidence_becomes_one_bounded_printable_line(
    evidence: dict[str, Any], outcome: Outcome, detail: str | None
) -> None:
    run = _run(outcome, parsed(document(evidence)))
    said = wording.quarantined(_item(detail), run, "link")
    assert said.isprintable()
    assert len(said) < 8000


@given(moment=st.none() | st.floats() | st.sampled_from([1e300, -1e300, 253402300800.0]))
def test_any_moment_can_be_told(moment: float | None) -> None:
    told = wording.clock(moment)
    assert told == "unknown" or told.endswith(" UTC")


def test_a_figure_that_is_none_is_left_out() -> None:
    run = dataclasses.replace(_run(evidence={"peak_rss": 1e300}), seconds=1e300)
    assert wording.sentence(run) == "memory, its worker went over its ceiling, on n-1"
