"""What the broker's patience leaves for a run."""

import pytest

from consumer.patience import Patience, told
from consumer.policy import Policy

CLOSED = (
    "ChannelPreconditionFailed: PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. "
    "Timeout value used: 60000 ms. This timeout value can be configured, see consumers doc guide to learn more"
)


def test_the_broker_tells_its_patience_when_it_closes_a_channel_over_it() -> None:
    assert told(CLOSED) == 60.0


@pytest.mark.parametrize("reason", ["", "closed", "PRECONDITION_FAILED - unknown delivery tag 7"])
def test_other_ends_of_a_session_tell_nothing(reason: str) -> None:
    assert told(reason) is None
    assert Patience(60.0).learn(reason) == Patience(60.0)


def test_a_run_ends_before_the_patience_does() -> None:
    assert Patience().learn(CLOSED).within(Policy(run_deadline=300)).run_deadline == 48


def test_a_run_that_is_shorter_anyway_is_left_alone() -> None:
    policy = Policy(run_deadline=20)
    assert Patience(60.0).within(policy) is policy
    assert Patience().within(policy) is policy


def test_the_shortest_patience_counts() -> None:
    assert Patience(30.0).learn(CLOSED) == Patience(30.0)
    assert Patience(90.0).learn(CLOSED) == Patience(60.0)
