"""Whole nodes die, drain and come back (failure table rows 2 and 8; D19, D26, D27)."""

import os
import signal
import time
from collections import Counter

import pytest

from tests.support.house import House, call
from tests.support.waiting import eventually


def test_killed_supervisor_takes_its_workers_along_within_five_seconds(house: House) -> None:
    house.door(), house.station()
    node = house.node(workers=3)
    house.warm_up()
    tickets = [house.accepted("wait", f"w{n}") for n in range(3)]
    eventually(lambda: len(house.starts()) == 3)
    children = node.children()
    assert len(children) >= 4
    node.kill9()
    eventually(lambda: not node.family())
    house.open_gate("wait")
    house.node(workers=3), house.node("suspects")
    assert house.balance(tickets) == Counter(done=3)
    assert all(len(house.starts(ticket)) == 2 for ticket in tickets)


def test_item_that_kills_whole_nodes_is_started_three_times_and_innocents_complete(house: House) -> None:
    house.door(), house.station()
    killer = house.accepted("nodekiller", "9417")
    innocents = [house.accepted("good", f"innocent-{n}") for n in range(30)]
    deaths = 0
    nodes = {lane: house.fleet(lane, workers=4) for lane in ("work", "suspects")}

    def ended() -> bool:
        nonlocal deaths
        for lane, node in nodes.items():
            if node.exit_code is not None:
                deaths += 1
                assert deaths <= 10, "the killer goes on cycling"
                nodes[lane] = house.fleet(lane, workers=4)
        return bool(house.status(killer)["state"] == "quarantined")

    eventually(ended, 60.0)
    assert house.balance([*innocents, killer], 60.0) == Counter(done=30, quarantined=1)
    assert len(house.starts(killer)) == 3
    assert deaths == 3


@pytest.mark.parametrize("place", [0, 60])
def test_innocents_around_a_killer_of_nodes_complete_whatever_the_order(house: House, place: int) -> None:
    house.door(), house.station()
    tickets = [("good" if n % 4 else "slow", f"innocent-{n}") for n in range(100)]
    tickets.insert(place, ("nodekiller", "9417"))
    for kind, ticket in tickets:
        house.accepted(kind, ticket)
    nodes = {lane: house.fleet(lane, workers=8) for lane in ("work", "suspects")}
    kills = 0

    def killer_ended() -> bool:
        nonlocal kills
        if kills < 3 and nodes["work"].exit_code is None and len(house.starts()) >= 20 * (kills + 1):
            house.kill_family(nodes["work"])
            kills += 1
        for lane in [lane for lane, node in nodes.items() if node.exit_code is not None]:
            nodes[lane] = house.fleet(lane, workers=8)
        return bool(house.status("9417")["state"] == "quarantined")

    eventually(killer_ended, 120.0)
    assert house.balance([ticket for _, ticket in tickets], 120.0) == Counter(done=100, quarantined=1)
    assert len(house.starts("9417")) <= 3
    assert all(house.status(ticket)["state"] == "done" for kind, ticket in tickets if kind != "nodekiller")


def test_nodes_killed_again_and_again_lose_nothing_and_convict_nobody_innocent(house: House) -> None:
    house.door(), house.station()
    tickets = [house.accepted("slow", f"slow-{n}") for n in range(24)]
    house.fleet("suspects")
    for round_ in range(3):
        node = house.fleet(workers=4, LAZARETTO_LOG_RUNS="on")
        node.wait_for_log("run.started ticket=slow-", 30.0, count=2 + round_)
        house.kill_family(node)
    house.node(workers=4)
    assert house.balance(tickets, 60.0) == Counter(done=24)
    assert all(len(house.starts(ticket)) <= 2 for ticket in tickets)


def test_drain_finishes_what_runs_releases_the_rest_and_charges_nobody(house: House) -> None:
    _, _, work, _ = house.open(workers=4)
    slow = [house.accepted("slow", f"slow-{n}") for n in range(40)]
    eventually(lambda: len(house.starts()) >= 6)
    assert work.terminate() == 0
    successor = house.node(workers=4)
    assert house.balance(slow, 60.0) == Counter(done=40)
    assert successor.exit_code is None
    charged = [ticket for ticket in slow if len(house.show(ticket)["runs"]) != 1]
    assert all(
        {run["outcome"] for run in house.show(ticket)["runs"]} <= {"released", "succeeded"} for ticket in charged
    )


def test_run_that_outlives_the_grace_of_a_drain_is_released_uncharged(house: House) -> None:
    house.extra["LAZARETTO_DRAIN_GRACE"] = "500ms"
    _, _, work, _ = house.open(workers=1)
    ticket = house.accepted("stubborn", "stubborn")
    eventually(lambda: house.starts(ticket))
    assert work.terminate() == 0
    house.open_gate("stubborn")
    house.node(workers=1)
    assert house.balance([ticket]) == Counter(done=1)
    assert [start.attempt for start in house.starts(ticket)] == [1, 1]
    assert [run["outcome"] for run in house.show(ticket)["runs"]] == ["released", "succeeded"]


def test_node_that_stands_still_for_a_while_goes_on_where_it_was_and_nothing_runs_twice(house: House) -> None:
    _, _, work, _ = house.open(workers=2)
    held = house.accepted("wait", "held")
    eventually(lambda: house.starts(held))
    work.signal(signal.SIGSTOP)
    house.node(workers=1)
    others = [house.accepted("good", f"other-{n}") for n in range(3)]
    eventually(lambda: len([start for start in house.starts() if start.ticket.startswith("other")]) >= 2)
    work.signal(signal.SIGCONT)
    house.open_gate("wait")
    assert house.balance([held, *others]) == Counter(done=4)
    assert all(len(house.starts(ticket)) == 1 for ticket in (held, *others))


def test_node_that_stood_still_for_several_heartbeats_kills_none_of_its_healthy_runs(house: House) -> None:
    house.extra["LAZARETTO_HEARTBEAT"] = "2s"
    _, _, work, _ = house.open(workers=3)
    beating = [house.accepted("beat", f"beat-{n}") for n in range(2)]
    silent = house.accepted("hang", "silent")
    eventually(lambda: all(house.starts(ticket) for ticket in beating))
    work.signal(signal.SIGSTOP)
    stopped_at = time.monotonic()
    eventually(lambda: time.monotonic() > stopped_at + 8, 20.0)  # several heartbeats, which is the accident itself
    work.signal(signal.SIGCONT)
    house.until(silent, "quarantined", 60.0)
    assert all(len(house.starts(ticket)) == 1 for ticket in beating)
    house.open_gate("beat")
    assert house.balance([*beating, silent], 60.0) == Counter(done=2, quarantined=1)
    assert {run["evidence"]["code"] for run in house.show(silent)["runs"]} == {"silent"}


def test_node_without_a_worker_gives_back_what_it_took_and_goes_on_when_its_handler_can_be_loaded(house: House) -> None:
    whole = "from tests.support.handlers import handle\n"
    handler = house.folder / "wares.py"
    handler.write_text(whole)
    house.door(), house.station()
    node = house.programs.python(
        "work", "-m", "consumer", "--handler", "wares:handle", "--workers", "1", env=house.env, cwd=house.folder
    )
    health = node.wait_for_log(r"health=(http://\S+)/healthz")[1]
    node.wait_for_log("consumer.consuming")
    house.warm_up()
    handler.write_text("raise ImportError('half a deploy')\n")
    mold = int(node.wait_for_log(r"mold.loaded pid=(\d+)")[1])
    os.kill(mold, signal.SIGKILL)
    node.wait_for_log("workers.missing")
    ticket = house.accepted("good", "patient")
    assert call("GET", f"{health}/readyz").status == 503
    handler.write_text(whole)
    assert house.balance([ticket]) == Counter(done=1)
    assert [start.attempt for start in house.starts(ticket)] == [1]


def test_isolation_node_that_dies_takes_no_other_suspect_along_however_short_their_runs_are(house: House) -> None:
    house.extra["LAZARETTO_STORM"] = "off"  # so many that die on their first run would stop the build
    house.door(), house.station()
    work = house.node(workers=2)
    house.warm_up()
    suspects = [house.accepted("killeronce", f"before-{n}") for n in range(25)]
    eventually(lambda: len(house.starts()) == 25)
    killer = house.accepted("nodekiller", "9417")
    work.wait(60.0)
    house.node(workers=2)
    isolation = house.fleet("suspects")

    def ended() -> bool:
        nonlocal isolation
        if isolation.exit_code is not None:
            isolation = house.fleet("suspects")
        if len(suspects) < 100:  # whenever the killer runs, others are behind it
            suspects.append(house.accepted("killeronce", f"behind-{len(suspects)}"))
        return bool(house.status(killer)["state"] == "quarantined")

    eventually(ended, 120.0)
    assert house.balance([killer, *suspects], 90.0) == Counter(done=len(suspects), quarantined=1)
    assert len(house.starts(killer)) == 3
    eventually(lambda: all(house.runs(ticket) == ["crashed", "succeeded"] for ticket in suspects))
