"""A fleet that recycles as often as it can, through door, broker and station: nothing is lost, repeated or charged."""

import signal
from collections import Counter

import psutil

from tests.support.house import House, call
from tests.support.waiting import eventually


def _metric(node: str, name: str) -> float:
    text = call("GET", f"{node}/metrics").body["text"]
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


def test_200_items_through_workers_that_are_recycled_after_every_run_are_each_run_once(house: House) -> None:
    house.extra |= {"LAZARETTO_RECYCLE_RUNS": "1"}
    _, _, work, _ = house.open(workers=2)
    node = work.wait_for_log(r"health=(http://\S+)/healthz")[1]
    tickets = [house.accepted("good", f"item-{n}") for n in range(200)]
    assert house.balance(tickets) == Counter(done=200)
    starts = Counter(start.ticket for start in house.starts())
    assert starts == dict.fromkeys(tickets, 1)
    assert {start.attempt for start in house.starts()} == {1}
    assert len({start.pid for start in house.starts()}) > 10
    recycled = 'lazaretto_worker_exits_total{cause="recycle_runs"'
    eventually(lambda: _metric(node, recycled) >= 10)
    assert _metric(node, 'lazaretto_worker_exits_total{cause="died"') == 0
    assert _metric(node, 'lazaretto_slots{state="away"}') == 0
    assert _metric(node, "lazaretto_charges_total{") == 0


def test_node_that_drains_lets_its_workers_flush_and_charges_nobody(house: House) -> None:
    house.extra |= {"TEST_NOTES": str(house.folder / "notes")}
    house.door()
    house.station()
    work = house.node(handler="tests.integration.workers.aging:handle")
    ticket = house.accepted("any", "buffers", text="buffer precious")
    assert house.balance([ticket]) == Counter(done=1)
    assert work.terminate() == 0
    assert "flushed precious" in (house.folder / "notes").read_text()


def test_worker_killed_while_it_leaves_charges_nobody(house: House) -> None:
    house.extra |= {"LAZARETTO_RECYCLE_RUNS": "1", "TEST_NOTES": str(house.folder / "notes")}
    house.door()
    house.station()
    work = house.node(workers=1, handler="tests.integration.workers.aging:handle")
    clinging = house.accepted("any", "clings", text="cling")
    house.until(clinging, "done")
    first = int((house.folder / "notes").read_text().split()[0])
    tickets = [house.accepted("any", f"after-{n}", text="nap") for n in range(20)]
    assert house.balance([clinging, *tickets]) == Counter(done=21)
    psutil.Process(first).send_signal(signal.SIGKILL)
    eventually(lambda: not psutil.pid_exists(first))
    last = house.accepted("any", "last", text="nap")
    assert house.balance([last]) == Counter(done=1)
    assert all(house.status(ticket)["attempts"] == 1 for ticket in [clinging, *tickets, last])
    assert work.exit_code is None


def test_leak_hunt_is_told_to_the_station(house: House) -> None:
    house.door()
    house.station()
    house.node(workers=1, handler="tests.integration.workers.aging:handle", LAZARETTO_LEAK_HUNT="5")
    tickets = [house.accepted("any", f"leaks-{n}", text="leak 1") for n in range(12)]
    assert house.balance(tickets) == Counter(done=12)

    def desk() -> str:
        return str(call("GET", f"http://127.0.0.1:{house.desk_port}/fleet").body["text"])

    eventually(lambda: "aging.py" in desk())
