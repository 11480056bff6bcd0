"""Policies are read whole, with every mistake at once."""

import pytest

from consumer.policy import OnExhausted, Policy, read


def test_a_kind_changes_only_what_it_names() -> None:
    policies = read(
        Policy(),
        {
            "telemetry": {
                "max_attempts": 1,
                "on_exhausted": "discard",
                "run_deadline": "5m",
                "heartbeat": "30s",
                "memory_limit": "64MiB",
            }
        },
    )
    assert policies.of("telemetry") == Policy(
        max_attempts=1, on_exhausted=OnExhausted.DISCARD, run_deadline=300.0, heartbeat=30.0, memory_limit=64 << 20
    )
    assert policies.of("support.ticket") == Policy()


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(ValueError, match="max_attempts") as caught:
        read(Policy(), {"a": {"max_attempts": 0, "typo": 1}, "b": {"on_exhausted": "burn"}, "c": 7})
    assert str(caught.value).count("\n") == 3
