"""Which nodes are there, and what of all that nodes said still holds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.station import roll_call
from gateway.station.fleet import FORGOTTEN_AFTER, NodeState
from gateway.station.roll_call import ENDED_SHOWN, Presence

NOW = 1_796_000_000.0


def _said(event: str = "node", node: str = "n", *, ago: float = 0.0, **changes: Any) -> NodeState:
    data = {"every": 10.0, "started_at": NOW - 1000, **changes.pop("data", {})}
    whole: dict[str, Any] = {"subject": "work", "state": "ready", "at": NOW - ago, "heard_at": NOW - ago, **changes}
    return NodeState(node=node, event=event, data=data, **whole)


@pytest.mark.parametrize(
    ("ago", "state", "presence"),
    [
        (29.0, "ready", Presence.PRESENT),
        (31.0, "ready", Presence.SILENT),
        (31.0, "hindered", Presence.SILENT),
        (31.0, "ended", Presence.ENDED),
        (0.0, "draining", Presence.PRESENT),
    ],
)
def test_a_node_is_silent_after_three_of_its_periods_unless_it_said_goodbye(
    ago: float, state: str, presence: Presence
) -> None:
    (node,) = roll_call.nodes([_said(ago=ago, state=state)], NOW)
    assert node.presence is presence


def test_silence_is_measured_on_the_station_s_clock_and_not_on_the_node_s() -> None:
    (node,) = roll_call.nodes([_said(at=NOW - 7200, heard_at=NOW - 1)], NOW)
    assert node.presence is Presence.PRESENT


def test_a_lane_is_told_by_the_node_that_was_heard_last_and_served_by_those_that_are_there() -> None:
    slots = {"busy": 1, "free": 2, "away": 1}
    states = [
        _said(node="a", data={"slots": slots, "waiting": 7}),
        _said(node="b", ago=5.0, data={"slots": slots, "waiting": 900}),
        _said(node="dead", ago=3600.0, data={"slots": slots, "waiting": 3}),
        _said(node="c", subject="suspects", ago=60.0, data={"slots": slots, "waiting": 2}),
        _said(node="d", subject="later", data={"waiting": "many"}),
    ]
    work, suspects, later = roll_call.lanes(roll_call.nodes(states, NOW))
    assert (work.lane, work.nodes, work.busy, work.slots, work.waiting) == ("work", 2, 2, 8, 7)
    assert (suspects.lane, suspects.nodes, suspects.slots, suspects.waiting) == ("suspects", 0, 0, 2)
    assert (later.nodes, later.waiting, later.looked_at) == (1, None, None)


def test_the_silent_come_first_and_both_the_silent_and_the_ended_are_forgotten_in_time() -> None:
    states = [
        _said(node="there"),
        _said(node="gone", ago=FORGOTTEN_AFTER + 1),
        _said(node="silent", ago=3600.0),
        _said(node="ended", ago=ENDED_SHOWN - 1, state="ended"),
        _said(node="long ended", ago=ENDED_SHOWN + 1, state="ended"),
    ]
    assert [node.node for node in roll_call.nodes(states, NOW)] == ["silent", "there", "ended"]


def test_a_breaker_counts_as_long_as_the_life_of_the_node_that_told_it() -> None:
    breakers = [_said("breaker", node, ago=5.0, subject="crm", state="open") for node in "abcd"]
    lives = [
        _said(node="a"),
        _said(node="b", ago=100.0),
        _said(node="c", data={"started_at": NOW - 2}),  # it was told by another process of this name
        _said(node="c", subject="suspects", state="ended"),
    ]
    found = [state.node for state in roll_call.pressing([*breakers, *lives], NOW)]
    assert found == ["a", "d"]  # and d is of a version that tells no life


@pytest.mark.parametrize("newest", ["work", "suspects"])
def test_a_lane_that_starts_later_under_the_same_name_ends_no_life(newest: str) -> None:
    breaker = _said("breaker", ago=50.0, subject="crm", state="open")
    started = {lane: NOW - (10 if lane == newest else 1000) for lane in ("work", "suspects")}
    lanes = [_said(subject=lane, data={"started_at": at}) for lane, at in started.items()]
    assert roll_call.pressing([breaker, *lanes], NOW) == [breaker]


def test_a_storm_that_another_node_has_lifted_is_over_and_another_storm_of_the_build_is_not() -> None:
    storm = {"build": "b1", "since": 5.0}
    states = [
        _said("storm", "a", subject="", state="tripped", data=storm),
        _said("storm", "b", subject="", state="lifted", data=storm),
        _said("storm", "c", subject="", state="tripped", data={**storm, "since": 9.0}),
        _said("storm", "d", subject="", state="tripped", data={"build": "b1"}),
    ]
    assert [state.node for state in roll_call.pressing(states, NOW)] == ["c", "d"]
    assert [state.node for state in roll_call.pressing([*states, _said("storm", "e", state="lifted")], NOW)] == [
        "c",
        "d",
    ]


def test_what_a_node_did_not_tell_is_not_known_and_what_is_there_is_read() -> None:
    (bare,) = roll_call.nodes([_said(data={"slots": None, "workers": "?"})], NOW)
    assert (bare.slots, bare.worker_bytes, bare.workers, bare.growth) == (None, None, [], None)
    told = {
        "slots": {"busy": 1, "free": 2, "away": 1},
        "workers": [{"pid": 7, "phase": "busy", "runs": 3, "resident": 9}],
    }
    (full,) = roll_call.nodes([_said(data=told)], NOW)
    assert (full.slots, full.workers[0].pid, full.workers[0].resident) == (4, 7, 9)
    assert "1 of 4 slots busy" in roll_call.sentence(full, NOW)


_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_NAMES = ("every", "slots", "memory", "limits", "recycling", "workers", "obstacles", "started_at", "build", "pid")


@given(st.dictionaries(st.sampled_from(_NAMES), _anything), st.text(max_size=9))
def test_whatever_a_node_says_is_shown_and_breaks_nothing(data: dict[str, Any], state: str) -> None:
    said = NodeState(node="n", event="node", subject="work", state=state, at=NOW, heard_at=NOW, data=data)
    (node,) = roll_call.nodes([said], NOW)
    assert node.node == "n"
    assert roll_call.sentence(node, NOW)
    assert len(roll_call.lives([said], NOW)) == 1
