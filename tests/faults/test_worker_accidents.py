"""A worker dies, hangs, hoards or complains: its own item pays, nobody else (failure table row 1; D06, D24-D26, D30).

All in one standing house: what one test breaks must not reach the next.
"""

import signal
from collections import Counter
from itertools import pairwise

import psutil

from tests.support.house import House
from tests.support.waiting import eventually


def test_killed_worker_charges_only_the_item_it_was_running(standing: House) -> None:
    waiting = [standing.accepted("wait.kill", f"innocent-{n}") for n in range(3)]
    victim = standing.accepted("wait.kill", "victim")
    start = eventually(lambda: standing.starts(victim))[0]
    eventually(lambda: all(standing.starts(ticket) for ticket in waiting))
    psutil.Process(start.pid).send_signal(signal.SIGKILL)
    eventually(lambda: len(standing.starts(victim)) == 2)
    standing.open_gate("wait.kill")
    assert standing.balance([*waiting, victim]) == Counter(done=4)
    eventually(lambda: standing.runs(victim) == ["crashed", "succeeded"])
    assert eventually(lambda: standing.show(victim)["runs"][0]["evidence"].get("signal")) == 9
    assert all(len(standing.starts(ticket)) == 1 for ticket in waiting)


def test_killer_item_is_started_exactly_three_times_while_its_neighbours_flow(standing: House) -> None:
    before = [standing.accepted("good", f"before-{n}") for n in range(10)]
    killer = standing.accepted("killer", "9417")
    after = [standing.accepted("good", f"after-{n}") for n in range(20)]
    assert standing.balance([*before, *after, killer]) == Counter(done=30, quarantined=1)
    assert len(standing.starts(killer)) == 3
    assert all(len(standing.starts(ticket)) == 1 for ticket in before + after)
    shown = standing.show(killer)
    assert [(run["attempt"], run["outcome"]) for run in shown["runs"]] == [(n, "crashed") for n in (1, 2, 3)]
    assert "last words on standard output" in standing.evidence(killer, 3, of="log_tail")[2]
    alert = eventually(lambda: [row["text"] for row in standing.show(killer)["alerts"] if row["sent_at"]])[0]
    for part in ("9417", "killer", "3", "signal 9"):
        assert part in alert


def test_second_and_third_start_of_a_killer_happen_in_the_isolation_lane_each_in_a_fresh_worker(
    standing: House,
) -> None:
    killer = standing.accepted("killer", "twice-isolated")
    standing.until(killer, "quarantined")
    assert len({start.pid for start in standing.starts(killer)}) == 3

    def crashes() -> dict[str, int]:
        line = "run.crashed ticket=twice-isolated"
        logs = {program.name: program.log.count(line) for program in standing.programs.started}
        return {name: count for name, count in logs.items() if count}

    eventually(lambda: crashes() == {"work-0": 1, "suspects-1": 2})  # a node logs an ending after the journal has it


def test_worker_that_ends_itself_is_a_crash_with_its_exit_code(standing: House) -> None:
    ticket = standing.accepted("exit", "exits")
    assert standing.balance([ticket]) == Counter(quarantined=1)
    assert standing.evidence(ticket, 3, of="exit_status") == [7, 7, 7]


def test_runaway_memory_is_stopped_at_the_ceiling_and_recorded(standing: House) -> None:
    hog = standing.accepted("hog", "hog")
    others = [standing.accepted("good") for _ in range(5)]
    assert standing.balance([hog, *others]) == Counter(done=5, quarantined=1)
    assert standing.runs(hog) == ["memory"] * 3
    assert all(peak > 100 << 20 for peak in standing.evidence(hog, 3, of="peak_rss"))


def test_hanging_run_is_killed_from_outside_and_quarantined_after_its_budget(standing: House) -> None:
    hang = standing.accepted("hang", "hang")
    others = [standing.accepted("good") for _ in range(3)]
    assert standing.balance([hang, *others]) == Counter(done=3, quarantined=1)
    assert standing.runs(hang) == ["timed_out"] * 3
    assert all("in handle" in stack for stack in standing.evidence(hang, 3, of="stack"))
    assert "in handle" in standing.command("show", hang).stdout


def test_rejected_item_is_quarantined_after_one_start(standing: House) -> None:
    ticket = standing.accepted("reject", "rejected")
    assert standing.balance([ticket]) == Counter(quarantined=1)
    assert len(standing.starts(ticket)) == 1
    assert "not a ticket" in standing.evidence(ticket, 1, of="message")[0]


def test_failing_item_is_quarantined_after_three_reported_failures(standing: House) -> None:
    ticket = standing.accepted("fail", "fails")
    assert standing.balance([ticket]) == Counter(quarantined=1)
    assert len(standing.starts(ticket)) == 3
    assert "this ticket fails every time" in standing.evidence(ticket, 3, of="traceback")[2]


def test_error_text_of_any_length_goes_through_retries_and_quarantine(standing: House) -> None:
    ticket = standing.accepted("verbose", "verbose")
    others = [standing.accepted("good") for _ in range(3)]
    assert standing.balance([ticket, *others]) == Counter(done=3, quarantined=1)
    assert standing.runs(ticket) == ["failed"] * 3


def test_a_retry_waits_at_least_as_long_as_the_handler_asked(standing: House) -> None:
    ticket = standing.accepted("later", "later")
    assert standing.balance([ticket]) == Counter(quarantined=1)
    times = [start.at for start in standing.starts(ticket)]
    assert all(later - earlier >= 0.5 for earlier, later in pairwise(times))


def test_dependency_that_is_down_delays_the_item_uncharged_until_it_has_waited_for_too_long(house: House) -> None:
    house.extra |= {"LAZARETTO_MAX_INTERRUPTIONS": "0", "LAZARETTO_MAX_WAIT": "2s"}
    house.open()
    ticket = house.accepted("down", "down")
    assert house.balance([ticket]) == Counter(quarantined=1)
    attempts = [start.attempt for start in house.starts(ticket)]
    assert attempts == [1] * len(attempts)
    assert len(attempts) > 1
    assert house.reason(ticket) == "dependency"


def test_processor_time_is_limited_in_the_isolation_lane(house: House) -> None:
    house.extra["LAZARETTO_SUSPECT_CPU"] = "1s"
    house.open()
    spinner, good = house.accepted("spinner", "spinner"), house.accepted("good", "good")
    assert house.balance([spinner, good], 60.0) == Counter(quarantined=1, done=1)
    assert house.runs("spinner") == ["crashed", "timed_out", "timed_out"]
    told = eventually(lambda: [run for run in house.show("spinner")["runs"] if "hard_limits" in run["evidence"]])
    assert [(run["evidence"]["code"], run["evidence"]["limit"]) for run in told] == [("cpu", 1.0)] * len(told)


def test_exception_that_the_policy_calls_permanent_costs_one_start(house: House) -> None:
    config = house.folder / "lazaretto.toml"
    config.write_text('[kinds."fail"]\npermanent = ["ValueError"]\n')
    house.extra["LAZARETTO_CONFIG"] = str(config)
    house.open()
    ticket = house.accepted("fail", "fails")
    assert house.balance([ticket]) == Counter(quarantined=1)
    assert len(house.starts(ticket)) == 1
