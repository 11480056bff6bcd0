"""Many items replayed by the command line with a real fleet: canary, outcomes, lanes; and an edit that is run."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from gateway.embedded import EmbeddedBroker
from gateway.station.store import Store
from tests.support.house import House
from tests.support.program import ROOT, Programs
from tests.support.waiting import eventually
from tests.unit.station.selected import hold, leave_in_doubt

BY = ("--by", "ana", "--reason", "fixed handler")


@pytest.fixture(scope="module")
def house(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Station and a node for each lane, shared by the tests here; each has kinds and tickets of its own."""
    folder = tmp_path_factory.mktemp("bulk")
    programs = Programs(folder)
    shared = House(programs, broker.url, f"t{uuid4().hex[:10]}", folder)
    try:
        shared.station(), shared.node(), shared.node("suspects")
        yield shared
    finally:
        programs.close()


def _hold(house: House, *tickets: str, **changes: Any) -> None:
    async def fill() -> None:
        store = await Store.open(f"sqlite+aiosqlite:///{house.folder / 'data' / 'station.db'}")
        for position, ticket in enumerate(tickets):
            await hold(store, ticket, at=float(position), **changes)
        await store.close()

    asyncio.run(fill())


def _leave_in_doubt(house: House, *tickets: str) -> None:
    """Have these as a station leaves them that was killed before they were sent, a while ago."""

    async def begin() -> None:
        store = await Store.open(f"sqlite+aiosqlite:///{house.folder / 'data' / 'station.db'}")
        for ticket in tickets:
            await leave_in_doubt(store, ticket)
        await store.close()

    asyncio.run(begin())


def _asked(house: House, *words: str, code: int = 0) -> Any:
    done = house.command(*words, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_a_canary_that_succeeds_lets_the_others_follow_and_each_outcome_is_told(house: House) -> None:
    _hold(house, *(f"fine-{n}" for n in range(4)), kind="good.canary")
    _hold(house, "worse", kind="reject.canary")
    counted = house.command("operations", "replay", *BY, "--kind", "good.canary", "--kind", "reject.canary")
    assert counted.returncode == 0, counted.stderr
    assert "5 of 5 items can be replayed" in counted.stdout
    assert "nothing was changed" in counted.stdout
    assert house.starts("fine-0") == []

    wanted = ("--kind", "good.canary", "--kind", "reject.canary", "--canary", "1", "--expect", "5", "--wait")
    found = _asked(house, "operations", "replay", *BY, *wanted, code=1)
    assert (found["state"], found["canary"]) == ("ended", 1)
    assert found["canary_passed_at"] is not None
    assert {outcome: number for outcome, number in found["counts"].items() if number} == {"done": 4, "quarantined": 1}
    assert {line["ticket"]: line["outcome"] for line in found["items"]}["worse"] == "quarantined"
    assert {len(house.starts(f"fine-{n}")) for n in range(4)} == {1}
    acts = house.show("worse")["audit"]
    assert [(act["act"], act["actor"], act["reason"]) for act in acts] == [("replay", "ana", "fixed handler")]


def test_a_canary_that_fails_keeps_the_others_back_until_somebody_continues(house: House) -> None:
    _hold(house, "sick-1", "sick-2", "sick-3", kind="reject.sick")
    found = _asked(
        house, "operations", "replay", *BY, "--kind", "reject.sick", "--canary", "1", "--yes", "--wait", code=1
    )
    assert (found["state"], found["counts"]["waiting"], found["counts"]["quarantined"]) == ("halted", 2, 1)
    assert found["note"].startswith("canary: 1 of 1 did not succeed")
    assert house.starts("sick-2") == []

    found = _asked(house, "operations", "continue", found["id"], *BY, "--wait", code=1)
    assert (found["state"], found["counts"]["quarantined"]) == ("ended", 3)
    exported = house.command("export", "audit", "--operation", found["id"])
    acts = [json.loads(line) for line in exported.stdout.splitlines()]
    assert [act["act"] for act in acts if act["ticket"] is None] == ["operation started", "operation continued"]
    assert sorted(act["ticket"] for act in acts if act["act"] == "replay") == ["sick-1", "sick-2", "sick-3"]


def test_what_replays_left_in_doubt_is_counted_first_then_sent_again_and_each_of_it_runs_once(house: House) -> None:
    tickets = [f"doubt-{n}" for n in range(3)]
    _hold(house, *tickets, "certain", kind="good.doubt")
    _leave_in_doubt(house, *tickets)
    listed = _asked(house, "list", "--unconfirmed", "--kind", "good.doubt")
    assert [item["ticket"] for item in listed] == tickets
    counted = house.command("operations", "resume", *BY, "--kind", "good.doubt")
    assert counted.returncode == 0, counted.stderr
    assert "3 of 3 items can be sent again" in counted.stdout
    assert "nothing was changed" in counted.stdout
    assert house.starts("doubt-0") == []

    wanted = ("--kind", "good.doubt", "--canary", "1", "--expect", "3", "--wait")
    found = _asked(house, "operations", "resume", *BY, *wanted)
    assert (found["act"], found["state"], found["counts"]["done"]) == ("resume", "ended", 3)
    assert {len(house.starts(ticket)) for ticket in tickets} == {1}
    assert house.starts("certain") == []
    acts = [(act["act"], act["actor"], act["operation"]) for act in house.show("doubt-0")["audit"]]
    assert acts == [("replay", "ana", None), ("replay resumed", "ana", found["id"])]
    assert _asked(house, "list", "--unconfirmed", "--kind", "good.doubt") == []


def test_a_replay_to_the_suspects_lane_is_run_in_isolation_and_cleared_by_success(house: House) -> None:
    _hold(house, "isolated", kind="good.isolated")
    done = _asked(house, "replay", "isolated", *BY, "--lane", "suspects")
    assert done["generation"] == 1
    (run,) = eventually(lambda: house.show("isolated")["runs"], 30.0)
    assert (run["lane"], run["outcome"], run["evidence"].get("suspicion")) == ("suspects", "succeeded", "cleared")
    assert house.show("isolated")["lineage"][0]["lane"] == "suspects"


def test_an_edit_is_run_in_place_of_the_original_which_stays_and_the_difference_is_shown(
    house: House, tmp_path: Path
) -> None:
    text = tmp_path / "text"
    text.write_text("hello, edited")
    _hold(house, "edited", kind="reject.edited", content_type="text/plain; charset=utf-8")
    tried = house.command("replay", "edited", *BY, "--text", str(text), "--dry-run")
    assert tried.returncode == 0, tried.stderr
    assert "+hello, edited" in tried.stdout
    assert "nothing was changed" in tried.stdout
    refused = house.command("replay", "edited", *BY, "--text", str(text), "--content-type", "image/png")
    assert refused.returncode == 1

    _asked(house, "replay", "edited", *BY, "--text", str(text))
    found = eventually(lambda: _two_items(house), 30.0) or {}
    newer, older = found["items"]
    assert (newer["size"], older["size"], older["state"]) == (len("hello, edited"), len("hello"), "replayed")
    (descent,) = found["lineage"]
    assert (descent["replayed_from"], descent["edited"]) == (0, True)
    assert "-hello\n+hello, edited\n" in descent["difference"]
    assert "+hello, edited" in house.command("show", "edited").stdout


def _two_items(house: House) -> dict[str, Any] | None:
    found = house.show("edited")
    return found if len(found["items"]) == 2 else None


def test_what_was_discarded_is_restored_by_its_verb(house: House) -> None:
    _hold(house, "restored", kind="good.restored")
    assert _asked(house, "discard", "restored", *BY, "--code", "not_a_ticket")["decision"] == "discarded"
    assert house.show("restored")["items"][0]["decision_code"] == "not_a_ticket"
    assert [item["ticket"] for item in _asked(house, "list", "--state", "discarded")] == ["restored"]
    assert _asked(house, "restore", "restored", *BY)["decision"] == "held again"
    again = house.command("restore", "restored", *BY)
    assert (again.returncode, "is held" in again.stderr) == (1, True)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_completes_the_verbs(shell: str) -> None:
    command = [sys.executable, "-m", "gateway.station", "completion", shell]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert "lazaretto-station" in done.stdout
    assert {verb for verb in ("replay", "operations", "restore", "export") if verb in done.stdout} == {
        "replay",
        "operations",
        "restore",
        "export",
    }
