"""What items need goes down and comes back: who is held, who tries, who is charged, who is told (C11, case D33)."""

import re
import sqlite3
from collections import Counter
from contextlib import closing
from typing import Any

import pytest

from consumer.dependencies import ALONE, MAX_BREAKERS
from gateway.contract.envelope import Admission, Envelope, encode
from gateway.contract.ids import TicketId
from gateway.contract.topology import Lane, Topology
from tests.support.handlers import PROVIDER_IS_UP, PROVIDER_KILLS_ONE
from tests.support.house import House, call
from tests.support.plain import publish
from tests.support.program import Program
from tests.support.waiting import eventually

PROVIDER = "the-provider"
PAUSE = 5.0
LABEL = re.compile(r'^lazaretto_breaker_state\{dependency="([^"]+)"\} (\d)', re.MULTILINE)


@pytest.fixture
def house(house: House) -> House:
    """A house whose breakers pause for long enough to look, and always for as long."""
    house.extra |= {"LAZARETTO_BREAKER_PAUSE": f"{PAUSE:g}s", "LAZARETTO_BREAKER_PAUSE_CAP": f"{PAUSE:g}s"}
    return house


def address(node: Program) -> str:
    found = node.wait_for_log(r"health=(http://\S+)/healthz")
    return found[1]


def breakers(node: Program) -> dict[str, dict[str, Any]]:
    answer = call("GET", f"{address(node)}/readyz")
    return {breaker["dependency"]: breaker for breaker in answer.body["breakers"]}


def levels(node: Program) -> dict[str, int]:
    return {name: int(level) for name, level in LABEL.findall(call("GET", f"{address(node)}/metrics").body["text"])}


def desk_state(house: House) -> str | None:
    answer = call("GET", f"http://127.0.0.1:{house.desk_port}/api/fleet")
    states = [state for state in answer.body["states"] if (state["event"], state["subject"]) == ("breaker", PROVIDER)]
    return str(states[0]["state"]) if states else None


def opened(house: House, text: str = "0") -> tuple[Program, list[str]]:
    """Start everything, with one worker, and let three different items open the breaker."""
    _, _, work, _ = house.open(workers=1)
    items = [house.accepted("needy", f"first-{name}", text) for name in "abc"]
    work.wait_for_log("breaker.open")
    return work, items


def held_until(house: House) -> list[float]:
    """Return the moments until which items were held in their first return, from the station's store."""
    with closing(sqlite3.connect(house.folder / "data/station.db")) as store:
        query = "SELECT started_at + delay FROM runs WHERE interruptions = 0 AND evidence LIKE '%breaker%'"
        return [row[0] for row in store.execute(query)]


def needy_starts(house: House) -> int:
    return len(house.starts())


def test_what_needs_a_dependency_that_is_down_is_not_started_but_for_one_probe_at_a_time_and_nobody_is_charged(
    house: House,
) -> None:
    work, items = opened(house)
    started = needy_starts(house)
    assert "breaker.half_open" not in work.log
    assert breakers(work)[PROVIDER]["state"] == "open"
    assert levels(work) == {PROVIDER: 2}
    eventually(lambda: desk_state(house) == "open")
    items += [house.accepted("needy", f"later-{number}", "0") for number in range(12)]

    work.wait_for_log("breaker.open", 60.0, count=3)
    probes = len(re.findall("breaker.half_open", work.log))
    assert needy_starts(house) == started + probes
    good = house.accepted("good", "needs-nothing")
    assert house.balance([good]) == Counter(done=1)

    house.open_gate(PROVIDER_IS_UP)
    assert house.balance(items, 90.0) == Counter(done=15)
    assert {start.attempt for start in house.starts()} == {1}
    assert Counter(house.starts(item)[-1].ticket for item in items) == Counter(items)
    assert levels(work) == {PROVIDER: 0}
    eventually(lambda: desk_state(house) == "closed")
    outcomes = [outcome for item in items for outcome in house.runs(item)]
    assert set(outcomes) == {"dependency", "succeeded"}


def test_the_held_come_back_spread_so_that_what_has_recovered_is_not_run_over(house: House) -> None:
    work, items = opened(house)
    later = [house.accepted("needy", f"later-{number}", "0") for number in range(40)]
    for item in later:
        eventually(lambda item=item: house.status(item)["state"] == "retrying", 30.0)  # type: ignore[misc]
    house.open_gate(PROVIDER_IS_UP)
    work.wait_for_log("breaker.closed", 60.0)
    assert house.balance([*items, *later], 90.0) == Counter(done=43)
    due = sorted(held_until(house))
    assert len(due) >= 30
    spread = due[-1] - due[0]
    assert spread >= PAUSE / 2
    busiest = max(sum(start <= moment < start + spread / 4 for moment in due) for start in due)
    assert busiest < len(due) * 0.6


def test_one_item_alone_opens_nothing_and_is_charged_once_its_peers_succeed(house: House) -> None:
    config = house.folder / "lazaretto.toml"
    config.write_text(f'[kinds."needy"]\nneeds = ["{PROVIDER}"]\n')
    house.extra["LAZARETTO_CONFIG"] = str(config)
    house.open_gate(PROVIDER_IS_UP)
    _, _, work, _ = house.open()
    liar, peers = house.accepted("down", "liar"), list[str]()
    eventually(lambda: len(house.starts(liar)) >= 5, 30.0)
    assert {start.attempt for start in house.starts(liar)} == {1}

    def peers_succeed() -> bool:
        peers.extend(house.accepted("needy", f"peer-{len(peers) + number}", "0") for number in range(3))
        house.balance(peers[-3:])
        return bool(house.status(liar)["state"] == "quarantined")

    eventually(peers_succeed, 90.0)
    assert house.balance([liar, *peers]) == Counter(quarantined=1, done=len(peers))
    assert house.reason(liar) == "attempts_exhausted"
    charged = [run for run in house.show(liar)["runs"] if run["outcome"] == "failed"]
    assert [run["evidence"]["code"] for run in charged] == [ALONE] * 3
    assert {start.attempt for start in house.starts() if start.ticket in peers} == {1}
    assert "breaker.open" not in work.log
    assert breakers(work)[PROVIDER]["state"] == "closed"


def test_what_is_held_for_longer_than_it_may_wait_is_quarantined_without_a_start(house: House) -> None:
    house.extra |= {"LAZARETTO_BREAKER_PAUSE": "10m", "LAZARETTO_MAX_WAIT": "3s"}
    _, items = opened(house)
    held = [house.accepted("needy", f"later-{number}", "0") for number in range(3)]
    assert house.balance([*items, *held], 60.0) == Counter(quarantined=6)
    assert {house.reason(item) for item in items + held} == {"dependency"}
    assert [house.starts(item) for item in held] == [[], [], []]


def test_nobody_tries_before_the_moment_that_the_handler_asked_for(house: House) -> None:
    house.extra |= {"LAZARETTO_BREAKER_PAUSE": "100ms", "LAZARETTO_BREAKER_PAUSE_CAP": "100ms"}
    work, items = opened(house, text="6")
    last_say = max(start.at for start in house.starts())
    items.append(house.accepted("needy", "later", "0"))
    house.open_gate(PROVIDER_IS_UP)
    assert house.balance(items, 60.0) == Counter(done=4)
    probe = min(start.at for start in house.starts() if start.at > last_say)
    assert probe - last_say >= 6.0
    assert "breaker.closed" in work.log


def test_a_probe_whose_worker_dies_proves_nothing_and_the_next_item_tries(house: House) -> None:
    work, items = opened(house)
    items += [house.accepted("needy", f"later-{number}", "0") for number in range(3)]
    house.open_gate(PROVIDER_IS_UP)
    house.open_gate(PROVIDER_KILLS_ONE)
    assert house.balance(items, 60.0) == Counter(done=6)
    work.wait_for_log("breaker.closed")
    outcomes = Counter(outcome for item in items for outcome in house.runs(item))
    assert (outcomes["crashed"], outcomes["succeeded"]) == (1, 6)
    assert set(outcomes) == {"crashed", "dependency", "succeeded"}


def test_suspects_are_held_too_and_one_of_them_tries_where_nobody_else_can(house: House) -> None:
    house.extra |= {"LAZARETTO_BREAKER_PAUSE": "1s", "LAZARETTO_BREAKER_PAUSE_CAP": "1s"}
    suspects, _, _ = house.node("suspects"), house.door(), house.station()
    items = [f"suspect-{name}" for name in "abcd"]
    lane = Topology(prefix=house.prefix).to_lane(Lane.SUSPECTS)
    for item in items:
        publish(house.broker_url, lane, encode(suspect(item)))
    suspects.wait_for_log("breaker.open", 30.0, count=2)
    house.open_gate(PROVIDER_IS_UP)
    for item in items:
        house.until(item, "done", 60.0)
    suspects.wait_for_log("breaker.closed")
    assert {start.attempt for start in house.starts()} == {2}


def suspect(ticket: str) -> Envelope:
    admission = Admission(
        bytes=1, charset="utf-8", tokens=1, exact=True, attachments=0, client="anonymous", admitted_at=1.0
    )
    return Envelope(
        ticket=TicketId(ticket),
        kind="needy",
        body=b"0",
        content_type="text/plain; charset=utf-8",
        attempt=2,
        crashes=1,
        suspect="crashed",
        admission=admission,
    )


def test_handlers_that_invent_names_fill_neither_memory_nor_metrics(house: House) -> None:
    work = house.fleet(handler="tests.support.handlers:handle_inline", LAZARETTO_ISOLATION="inline")
    house.door()
    items = [house.accepted("inventor", f"name-{number}") for number in range(MAX_BREAKERS + 6)]
    eventually(lambda: len(house.starts()) == len(items), 30.0)
    work.wait_for_log("breaker.too_many")
    names = levels(work)
    assert len(names) == MAX_BREAKERS
    assert max(len(name.encode()) for name in names) <= 64
