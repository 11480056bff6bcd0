"""The broker dies, blocks, cuts the line or loses a queue (failure table rows 4, 6, 7, 12; D03, D04, D08, D36)."""

from collections import Counter

from gateway.embedded import EmbeddedBroker
from tests.support.house import House
from tests.support.waiting import eventually


def test_broker_killed_under_load_loses_nothing_and_charges_nobody(
    own_house: House, own_broker: EmbeddedBroker
) -> None:
    house = own_house
    house.open(workers=4)
    accepted = [house.accepted("slow", f"before-{n}") for n in range(30)]
    running = [house.accepted("wait", f"held-{n}") for n in range(2)]
    eventually(lambda: len(house.starts()) >= 8)
    own_broker.kill()
    during = house.submit("good", "during")
    assert during.status == 503
    assert during.headers["Retry-After"]
    house.open_gate("wait")
    own_broker.start()
    back = eventually(lambda: answer if (answer := house.submit("good", "after")).status == 202 else None, 30.0)
    assert back is not None
    assert house.balance([*accepted, *running, "after"], 60.0) == Counter(done=33)
    outcomes = Counter(run["outcome"] for ticket in accepted for run in house.show(ticket)["runs"])
    assert not outcomes.keys() - {"succeeded", "outage"}


def test_broker_away_for_longer_than_the_outage_window_charges_nobody(
    own_house: House, own_broker: EmbeddedBroker
) -> None:
    house = own_house
    house.extra["LAZARETTO_OUTAGE_WINDOW"] = "3s"
    house.station()
    node = house.node(workers=1)
    house.door()
    held = house.accepted("wait", "held")
    eventually(lambda: house.starts(held))
    own_broker.kill()
    node.wait_for_log("broker.unreachable", count=6)  # their pauses add up to more than the window
    own_broker.start()
    house.open_gate("wait")
    assert house.balance([held], 60.0) == Counter(done=1)
    assert house.runs(held) == ["outage", "succeeded"]


def test_connections_closed_by_an_operator_never_let_one_item_run_twice_at_once(
    own_house: House, own_broker: EmbeddedBroker
) -> None:
    house = own_house
    house.open(workers=1)
    ticket = house.accepted("stubborn", "stubborn")
    eventually(lambda: house.starts(ticket))
    own_broker.ctl("close_all_connections", "maintenance")
    eventually(lambda: len(house.starts(ticket)) == 2, 30.0)
    first, second = house.starts(ticket)
    assert not _alive(first.pid) or first.pid == second.pid
    house.open_gate("stubborn")
    assert house.balance([ticket]) == Counter(done=1)
    assert [run["outcome"] for run in house.show(ticket)["runs"]] == ["outage", "succeeded"]


def test_memory_alarm_is_answered_promptly_and_ends_without_restart_and_one_execution(
    own_house: House, own_broker: EmbeddedBroker
) -> None:
    house = own_house
    house.extra["LAZARETTO_PUBLISH_DEADLINE"] = "1s"
    house.open(workers=2)
    house.until(house.accepted("good"), "done")
    own_broker.ctl("set_vm_memory_high_watermark", "0.00001")
    answers = [house.submit("good", "alarmed") for _ in range(3)]
    assert [answer.status for answer in answers] == [503] * 3
    own_broker.ctl("set_vm_memory_high_watermark", "0.4")
    eventually(lambda: house.submit("good", "alarmed").status == 202)
    assert house.balance(["alarmed"]) == Counter(done=1)
    assert len(house.starts("alarmed")) == 1


def test_drain_during_a_memory_alarm_ends_in_time_and_what_was_done_is_not_done_again(
    own_house: House, own_broker: EmbeddedBroker
) -> None:
    house = own_house
    _, _, work, _ = house.open(workers=3)
    held = [house.accepted("wait.alarm", f"held-{n}") for n in range(3)]
    eventually(lambda: len(house.starts()) == 3)
    own_broker.raise_memory_alarm()
    house.open_gate("wait.alarm")
    assert work.terminate(60.0) == 0
    own_broker.clear_memory_alarm()
    house.node(workers=3)
    assert house.balance(held, 60.0) == Counter(done=3)
    assert len(house.starts()) == 3


def test_broker_with_less_patience_than_a_run_needs_is_learnt_and_an_endless_run_stays_bounded(
    own_house: House, own_broker: EmbeddedBroker
) -> None:
    house = own_house
    less = (
        "application:set_env(rabbit, consumer_timeout, 4000), application:set_env(rabbit, channel_tick_interval, 500)."
    )
    own_broker.ctl("eval", less)
    _, _, work, suspects = house.open(workers=2)
    house.accepted("hang", "endless")
    good = [house.accepted("good", f"beside-{n}") for n in range(4)]
    assert house.balance(["endless", *good], 90.0) == Counter(done=4, quarantined=1)
    outcomes = Counter(house.runs("endless"))
    assert outcomes["timed_out"] == 3  # each attempt once, and whoever had not known before lost it once, uncharged
    assert outcomes.keys() <= {"timed_out", "outage"}
    assert outcomes["outage"] <= 2
    for node in (work, suspects):
        node.wait_for_log("broker.impatient ack_timeout=4")


def test_queue_deleted_by_hand_is_declared_again_and_never_answered_with_a_false_202(
    own_house: House, own_broker: EmbeddedBroker
) -> None:
    house = own_house
    house.open(workers=2)
    house.until(house.accepted("good"), "done")
    own_broker.ctl("delete_queue", f"{house.prefix}.work")
    statuses = Counter[int]()
    accepted: list[str] = []

    def accepted_again() -> bool:
        answer = house.submit("good", f"t{sum(statuses.values())}")
        statuses[answer.status] += 1
        if answer.status == 202:
            accepted.append(str(answer.body["id"]))
        return len(accepted) == 3

    eventually(accepted_again, 40.0)
    assert set(statuses) <= {202, 503}
    assert house.balance(accepted) == Counter(done=3)


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123  the kernel's file, not a path of ours
            return b") Z " not in stat.read()
    except FileNotFoundError:
        return False
