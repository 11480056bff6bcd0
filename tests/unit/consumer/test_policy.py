"""Policies are read whole, with every mistake at once."""

from typing import Any

import pytest

from consumer.policy import OnExhausted, Policy, mistakes_in, read
from gateway.contract.envelope import Spent


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


def test_a_kind_names_what_it_needs() -> None:
    assert read(Policy(), {"a": {"needs": ["openai", "crm"]}}).of("a").needs == {"openai", "crm"}
    for wrong in ("openai", [7], [""], ["x" * 65]):
        with pytest.raises(ValueError, match="list of dependencies"):
            read(Policy(), {"a": {"needs": wrong}})


def test_all_mistakes_are_told_at_once() -> None:
    kinds = {"a": {"max_attempts": 0, "typo": 1}, "b": {"on_exhausted": "burn"}, "c": 7}
    with pytest.raises(ValueError, match="max_attempts") as caught:
        read(Policy(), kinds)
    assert str(caught.value).count("\n") == 3
    assert str(caught.value).splitlines() == mistakes_in(kinds)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"max_attempts": True}, "max_attempts: write a whole number"),
        ({"max_interruptions": -1}, "at least 0"),
        ({"backoff_base": "soon"}, "write a duration"),
        ({"run_deadline": 0}, "run_deadline: write more than nothing"),
        ({"max_wait": 0}, "max_wait: write more than nothing"),
        ({"memory_limit": 0}, "memory_limit: write more than nothing"),
        ({"permanent": "ValueError"}, "write a list of exception classes"),
        ({"convict_in_isolation": "often"}, "write true or false"),
        ({"max_spend": 5}, "write { tokens = 200000, usd = 1.5 }"),
        ({"max_spend": {}}, "write { tokens = 200000, usd = 1.5 }"),
        ({"max_spend": {"eur": 1}}, "write { tokens = 200000, usd = 1.5 }"),
        ({"max_spend": {"tokens": 1.5}}, "max_spend: write a whole number"),
        ({"max_spend": {"usd": float("nan")}}, "write an amount"),
        ({"max_spend": {"usd": "much"}}, "write an amount"),
        ({"ticket": {"max_attempts": 1}}, "needs quotes"),
    ],
    ids=str,
)
def test_a_mistake_names_its_place_and_what_to_write(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="kinds") as caught:
        read(Policy(), {"support": table})
    assert said in str(caught.value)
    assert str(caught.value).startswith('kinds."support".')


def test_a_name_that_no_ticket_can_have_is_a_mistake() -> None:
    with pytest.raises(ValueError, match=r'kinds\."Support Ticket" is no kind'):
        read(Policy(), {"Support Ticket": {"max_attempts": 1}})


def test_a_budget_keeps_of_the_default_what_it_does_not_name() -> None:
    default = Policy(max_spend=Spent(tokens=1000))
    policies = read(default, {"a": {"max_spend": {"usd": 2}}, "b": {"max_spend": {"tokens": 0}}})
    assert policies.of("a").max_spend == Spent(tokens=1000, usd=2.0)
    assert policies.of("b").max_spend == Spent()
    assert policies.of("c").max_spend == Spent(tokens=1000)


def test_rules_of_which_one_undoes_the_other_are_a_mistake_told_once_where_it_was_made() -> None:
    with pytest.raises(ValueError, match="backoff_cap") as caught:
        read(Policy(), {"a": {"backoff_base": "2h"}, "b": {"backoff_cap": "10s"}})
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == ['kinds."a"', 'kinds."b"']
    with pytest.raises(ValueError, match="backoff_cap") as caught:
        read(Policy(backoff_cap=1.0), {"a": {"max_attempts": 1}})
    assert str(caught.value).startswith("backoff_cap (1 s) is below backoff_base (30 s)")
    assert "\n" not in str(caught.value)


def test_what_only_the_station_reads_is_no_mistake_here() -> None:
    assert read(Policy(), {"a": {"owner": "billing", "review_within": "4h"}}).of("a") == Policy()


def test_every_rule_can_be_set_for_one_kind() -> None:
    table = {
        "max_attempts": 5,
        "max_crashes": 2,
        "max_interruptions": 0,
        "max_wait": "2h",
        "max_spend": {"tokens": 200_000, "usd": 1.5},
        "backoff_base": "1s",
        "backoff_cap": "1m",
        "permanent": ["ValueError"],
        "convict_in_isolation": True,
    }
    assert read(Policy(), {"a": table}).of("a") == Policy(
        max_attempts=5,
        max_crashes=2,
        max_interruptions=0,
        max_wait=7200.0,
        max_spend=Spent(tokens=200_000, usd=1.5),
        backoff_base=1.0,
        backoff_cap=60.0,
        permanent=frozenset({"ValueError"}),
        convict_in_isolation=True,
    )


def test_limits_of_the_door_are_no_policy_and_their_mistakes_are_named_all_the_same() -> None:
    limits = {"max_body_bytes": "4MiB", "max_tokens": 5, "max_attachments": 0}
    assert read(Policy(), {"logs": limits}).of("logs") == Policy()
    assert mistakes_in({"logs": {"max_tokens": 0}}) == ['kinds."logs".max_tokens: write a whole number of at least 1']


def test_the_longest_run_is_that_of_whichever_kind_may_run_longest() -> None:
    assert read(Policy(run_deadline=60.0), {"a": {"run_deadline": "5m"}, "b": {"run_deadline": 1}}).longest_run == 300
    assert read(Policy(run_deadline=60.0), {"b": {"run_deadline": 1}}).longest_run == 60
