"""A worker dies, hangs, hoards or complains: its own item pays, nobody else (failure table row 1; D24 to D26, D30)."""

import signal
from collections import Counter
from itertools import pairwise

import psutil

from tests.support.house import House
from tests.support.waiting import eventually


def test_killed_worker_charges_only_the_item_it_was_running(house: House) -> None:
    _, _, work, _ = house.open(workers=4)
    waiting = [house.accepted("wait", f"innocent-{n}") for n in range(3)]
    victim = house.accepted("wait", "victim")
    start = eventually(lambda: house.starts(victim))[0]
    eventually(lambda: len(house.starts()) == 4)
    psutil.Process(start.pid).send_signal(signal.SIGKILL)
    eventually(lambda: len(house.starts(victim)) == 2)
    house.gate_path.touch()
    assert house.balance([*waiting, victim]) == Counter(done=4)
    assert [run["outcome"] for run in house.show(victim)["runs"]] == ["crashed", "succeeded"]
    assert house.show(victim)["runs"][0]["evidence"]["signal"] == 9
    assert all(len(house.starts(ticket)) == 1 for ticket in waiting)
    assert work.exit_code is None


def test_killer_item_is_started_exactly_three_times_while_its_neighbours_flow(house: House) -> None:
    house.open(workers=4)
    before = [house.accepted("good", f"before-{n}") for n in range(10)]
    killer = house.accepted("killer", "9417")
    after = [house.accepted("good", f"after-{n}") for n in range(20)]
    assert house.balance([*before, *after, killer]) == Counter(done=30, quarantined=1)
    assert len(house.starts(killer)) == 3
    assert all(len(house.starts(ticket)) == 1 for ticket in before + after)
    shown = house.show(killer)
    assert [run["outcome"] for run in shown["runs"]] == ["crashed"] * 3
    assert [run["attempt"] for run in shown["runs"]] == [1, 2, 3]
    assert "last words on standard output" in shown["runs"][2]["evidence"]["log_tail"]
    alert = eventually(lambda: [row["text"] for row in house.show(killer)["alerts"] if row["sent_at"]])[0]
    for part in ("9417", "killer", "3", "signal 9"):
        assert part in alert


def test_second_and_third_start_of_a_killer_happen_in_the_isolation_lane(house: House) -> None:
    _, _, work, suspects = house.open()
    killer = house.accepted("killer", "9417")
    house.until(killer, "quarantined")
    pids = [start.pid for start in house.starts(killer)]
    assert len(set(pids)) == 3
    assert work.log.count("run.crashed ticket=9417") == 1
    assert suspects.log.count("run.crashed ticket=9417") == 2


def test_runaway_memory_is_stopped_at_the_ceiling_and_recorded(house: House) -> None:
    house.open(workers=2)
    hog = house.accepted("hog", "hog")
    others = [house.accepted("good") for _ in range(5)]
    assert house.balance([hog, *others]) == Counter(done=5, quarantined=1)
    runs = house.show(hog)["runs"]
    assert [run["outcome"] for run in runs] == ["memory"] * 3
    assert all(run["evidence"]["peak_rss"] > 100 << 20 for run in runs)


def test_hanging_run_is_killed_from_outside_and_quarantined_after_its_budget(house: House) -> None:
    house.extra["LAZARETTO_RUN_DEADLINE"] = "500ms"
    house.open()
    hang = house.accepted("hang", "hang")
    assert house.balance([hang]) == Counter(quarantined=1)
    assert [run["outcome"] for run in house.show(hang)["runs"]] == ["timed_out"] * 3


def test_rejected_item_is_quarantined_after_one_start(house: House) -> None:
    house.open()
    ticket = house.accepted("reject")
    assert house.balance([ticket]) == Counter(quarantined=1)
    assert len(house.starts(ticket)) == 1
    assert "not a ticket" in house.show(ticket)["runs"][0]["evidence"]["message"]


def test_failing_item_is_quarantined_after_three_reported_failures(house: House) -> None:
    house.open()
    ticket = house.accepted("fail")
    assert house.balance([ticket]) == Counter(quarantined=1)
    assert len(house.starts(ticket)) == 3
    assert "this ticket fails every time" in house.show(ticket)["runs"][2]["evidence"]["traceback"]


def test_exception_that_the_policy_calls_permanent_costs_one_start(house: House) -> None:
    config = house.folder / "lazaretto.toml"
    config.write_text('[kinds."fail"]\npermanent = ["ValueError"]\n')
    house.extra["LAZARETTO_CONFIG"] = str(config)
    house.open()
    ticket = house.accepted("fail")
    assert house.balance([ticket]) == Counter(quarantined=1)
    assert len(house.starts(ticket)) == 1


def test_a_retry_waits_at_least_as_long_as_the_handler_asked(house: House) -> None:
    house.open()
    ticket = house.accepted("later")
    assert house.balance([ticket]) == Counter(quarantined=1)
    times = [start.at for start in house.starts(ticket)]
    assert all(later - earlier >= 0.5 for earlier, later in pairwise(times))
