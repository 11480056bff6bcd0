"""Attempts given back in bulk, by the command line and with real nodes, on both stores (Q6)."""

import json
from collections import Counter
from pathlib import Path

import pytest

from consumer import store
from gateway.embedded import EmbeddedBroker
from gateway.station.pardons import STARTS
from tests.support.house import House
from tests.support.program import Programs
from tests.support.waiting import eventually

BY = ("--by", "ana", "--reason", "the provider was down")


@pytest.fixture
def house(broker: EmbeddedBroker, prefix: str, programs: Programs, tmp_path: Path, store_url: str) -> House:
    return House(programs, broker.url, prefix, tmp_path, extra={"LAZARETTO_STORE_URL": store_url})


def test_the_columns_that_the_station_writes_are_the_fences() -> None:
    assert STARTS.name == store.starts.name
    assert {column.name for column in STARTS.columns} <= {column.name for column in store.starts.columns}


def test_reset_counts_first_and_then_gives_what_waits_a_generation_of_its_own(house: House) -> None:
    house.door(), house.station()
    house.extra |= {"LAZARETTO_BACKOFF_BASE": "2s", "LAZARETTO_BACKOFF_CAP": "2s"}
    node = house.node(workers=2)
    tickets = [house.accepted("fail", f"failing-{n}") for n in range(3)]
    other = house.accepted("later", "later")
    eventually(lambda: all(house.runs(ticket) for ticket in (*tickets, other)), 40.0)
    assert node.terminate() == 0
    begun = {ticket: len(house.starts(ticket)) for ticket in tickets}
    assert set(begun.values()) <= {1, 2}

    counted = house.command("reset", *BY, "--kind", "fail", "--json")
    assert (counted.returncode, counted.stderr) == (0, "")
    document = json.loads(counted.stdout)
    assert (document["found"], document["reset"]) == (3, None)
    assert [item["ticket"] for item in document["items"]] == tickets
    told = house.command("reset", *BY, "--outcome", "crashed")
    assert told.stdout.startswith("0 items on their way; nothing was changed")
    wrong = house.command("reset", *BY, "--kind", "fail", "--expect", "4")
    assert (wrong.returncode, wrong.stderr) == (1, "4 expected, 3 found: nothing was changed\n")

    done = house.command("reset", *BY, "--kind", "fail", "--since", "1h", "--expect", "3")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("3 items got their attempts back")
    assert json.loads(house.command("reset", *BY, "--kind", "fail", "--json").stdout)["found"] == 0, "marked already"
    house.node(workers=2)
    assert house.balance([*tickets, other], 90.0) == Counter(quarantined=4)
    for ticket in tickets:
        starts = [(start.generation, start.attempt) for start in house.starts(ticket)]
        assert starts == [(0, n + 1) for n in range(begun[ticket])] + [(1, 1), (1, 2), (1, 3)]
        shown = house.show(ticket)
        assert [(act["act"], act["actor"], act["reason"]) for act in shown["audit"]] == [
            ("reset", "ana", "the provider was down")
        ]
        failed = [run for run in shown["runs"] if run["outcome"] == "failed"]  # the drain may have released it as well
        assert len(failed) == begun[ticket] + 3, "its history stays"
    assert {start.generation for start in house.starts(other)} == {0}


def test_reset_of_what_is_in_quarantine_replays_it_with_the_same_filters(house: House) -> None:
    house.door(), house.station()
    house.node(workers=2)
    tickets = [house.accepted("fail", f"failing-{n}") for n in range(2)]
    other = house.accepted("reject", "rejected")
    assert house.balance([*tickets, other], 60.0) == Counter(quarantined=3)
    eventually(lambda: all(len(house.runs(ticket)) == 3 for ticket in tickets), 30.0)

    counted = json.loads(house.command("reset", *BY, "--quarantined", "--outcome", "failed", "--json").stdout)
    assert [item["ticket"] for item in counted["items"]] == tickets
    done = house.command("reset", *BY, "--quarantined", "--outcome", "failed", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    eventually(lambda: all(len(house.starts(ticket)) == 6 for ticket in tickets), 60.0)
    assert house.balance([*tickets, other], 60.0) == Counter(quarantined=3)
    assert {start.generation for start in house.starts(tickets[0])} == {0, 1}
    assert len(house.starts(other)) == 1


def test_reset_where_no_node_keeps_a_fence_says_so(house: House) -> None:
    house.station()
    refused = house.command("reset", *BY, "--yes")
    assert refused.returncode == 1
    assert "no node has recorded a start" in refused.stderr


def test_reset_takes_no_decision_without_a_name_and_a_reason(house: House) -> None:
    assert house.command("reset", "--yes", "--by", "ana").returncode == 2
    assert house.command("reset", "--yes", "--by", "ana", "--reason", " ").returncode == 2
    assert house.command("reset", *BY, "--since", "yesterday").returncode == 2
