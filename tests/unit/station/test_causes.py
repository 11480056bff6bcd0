"""Items that died of the same are one group, and what differs from item to item makes no difference."""

import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contract.outcomes import Outcome
from gateway.station import causes
from gateway.station.causes import Cause

_ANY = st.text() | st.integers() | st.none() | st.lists(st.dictionaries(st.text(), st.text()))
_NAMES = ["error_type", "message", "traceback", "stack", "signal", "exit_status", "code", "violations", "oom_kill"]
_EVIDENCE = st.dictionaries(st.sampled_from(_NAMES), _ANY)


def _cause(outcome: str | None = "failed", /, **evidence: Any) -> Cause:
    return causes.find(
        kind="support.ticket",
        reason="attempts_exhausted",
        detail="asks for run 4 of 3",
        outcome=outcome,
        evidence=evidence,
    )


def _trace(folder: str, line: int, depth: int = 1, message: str = "no such key") -> str:
    frames = [traceback.FrameSummary(f"/srv/{folder}/acme/handlers.py", line, "handle")]
    frames += [traceback.FrameSummary(f"/srv/{folder}/acme/parse.py", line + 7, "walk")] * depth
    told = "".join(traceback.format_list(frames))
    return f"Traceback (most recent call last):\n{told}acme.parse.Broken: {message}\n"


def _fault(address: int, line: int, other: str) -> str:
    return (
        f"Fatal Python error: Segmentation fault\n\nThread 0x{address:016x} (most recent call first):\n"
        f'  File "/usr/lib/python3.11/{other}.py", line 5 in wait\n\n'
        f"Current thread 0x{address + 1:016x} (most recent call first):\n"
        f'  File "/srv/acme/native.py", line {line} in decode\n  File "/srv/acme/handlers.py", line 3 in handle\n\n'
        f"Extension modules: lxml.etree (total: 1)\n"
    )


def test_the_same_exception_from_the_same_place_is_one_group_in_every_release() -> None:
    one = _cause(error_type="acme.parse.Broken", message="ticket 17", traceback=_trace("r1", 10))
    other = _cause(error_type="acme.parse.Broken", message="ticket 9417", traceback=_trace("release-2/x", 300))
    assert one == other
    assert one.frames == ("acme/parse.py: walk", "acme/handlers.py: handle")
    assert one.what == "acme.parse.Broken"


@pytest.mark.parametrize(
    "other",
    [
        {"error_type": "KeyError", "traceback": _trace("r1", 1)},
        {"error_type": "acme.parse.Broken", "traceback": _trace("r1", 1).replace("walk", "run")},
        {"signal": 11},
    ],
    ids=["type", "place", "signal"],
)
def test_another_type_or_place_is_another_group(other: dict[str, Any]) -> None:
    assert _cause(error_type="acme.parse.Broken", traceback=_trace("r1", 1)).id != _cause(**other).id


def test_what_was_raised_while_another_was_handled_counts() -> None:
    first = _trace("r1", 1).replace("walk", "read")
    chained = f"{first}\nDuring handling of the above exception, another exception occurred:\n\n{_trace('r1', 1)}"
    assert _cause(error_type="B", traceback=chained) == _cause(error_type="B", traceback=_trace("r1", 1))


def test_how_deep_a_function_called_itself_makes_no_difference() -> None:
    shallow, deep = (_cause(error_type="RecursionError", traceback=_trace("r1", 1, depth)) for depth in (2, 15))
    assert shallow == deep


def test_a_death_by_a_signal_is_told_by_the_thread_that_died() -> None:
    one = _cause("crashed", signal=11, code="signal:11", stack=_fault(0x7F00, 40, "queue"))
    other = _cause("crashed", signal=11, code="signal:11", stack=_fault(0x7FAA, 99, "selectors"))
    assert one == other
    assert one.frames == ("acme/native.py: decode", "acme/handlers.py: handle")
    assert one.what == "signal 11"


@pytest.mark.parametrize("outcome", ["timed_out", "memory"])
def test_where_a_run_was_when_it_was_stopped_makes_no_difference(outcome: str) -> None:
    one = _cause(outcome, code="deadline", stack=_fault(1, 2, "a"))
    assert one == _cause(outcome, code="deadline", stack="")


def test_the_words_of_a_rejection_count_without_their_numbers() -> None:
    one, other = (_cause("rejected", code="Reject", message=f"order {number} is no ticket") for number in (17, 9417))
    assert one == other
    assert one != _cause("rejected", code="Reject", message="spam")


def test_the_rules_that_were_broken_count_in_any_order() -> None:
    one = _cause("inadmissible", violations=[{"rule": "max_tokens"}, {"rule": "encoding"}])
    assert one == _cause("inadmissible", violations=[{"rule": "encoding"}, {"rule": "max_tokens", "actual": 5}])


def test_an_item_that_never_ran_is_grouped_by_its_reason() -> None:
    assert _cause(None).outcome == "attempts_exhausted"
    assert _cause(None).what == "asks for run # of #"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("ticket 9417 at 0x7f3a2c", "ticket # at …"),
        ("id 0190b5a4-7d0f-7c3a-9a53-1a2a7e770417 failed", "id … failed"),
        ("etag 9a53f1b2c", "etag …"),
        ("line 3\nof  7.5", "line # of #"),
        ("facade deadbeef", "facade deadbeef"),
    ],
)
def test_ids_numbers_and_addresses_are_taken_out(said: str, shown: str) -> None:
    assert causes.without_ids(said) == shown


@given(st.integers(0, 120), st.sampled_from(["😀", "é", "\U0001f468‍\U0001f469", "\ud83d", "7😀"]), st.integers(1, 400))
def test_a_cut_inside_a_character_is_still_text(before: int, character: str, times: int) -> None:
    found = _cause("rejected", message="x" * before + character * times)
    assert len(found.what.encode()) <= 200
    assert len(found.id) == 16


@given(st.sampled_from([*Outcome, "held", None]), _EVIDENCE)
def test_whatever_a_worker_wrote_has_a_bounded_cause(outcome: str | None, evidence: dict[str, Any]) -> None:
    found = _cause(outcome, **evidence)
    assert found == _cause(outcome, **evidence)
    assert len(found.what.encode()) <= 200
    assert len(found.frames) <= causes.MOST_FRAMES
    assert all(len(frame.encode()) <= 160 for frame in found.frames)


@given(st.text(max_size=300))
def test_what_has_no_ids_any_more_stays_as_it_is(text: str) -> None:
    once = causes.without_ids(text)
    assert causes.without_ids(once) == once
