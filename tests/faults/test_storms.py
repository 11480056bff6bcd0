"""A handler's build kills its workers: the build is stopped, the items are spared (C12).

A fuse of the whole fleet: each test has both lanes running, and counts what was charged.
"""

import json
import signal
from collections import Counter
from pathlib import Path

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel

from tests.support.house import House, call
from tests.support.plain import on_channel
from tests.support.program import ROOT, Program
from tests.support.waiting import eventually

ITEMS = 12
COUNTED = 4
"""Deaths that are charged: the fifth completes the storm, and is on record before it is charged."""

GOOD = "from tests.support import handlers\n\ndef handle(run):\n    handlers.handle(run)\n"
BAD = "import ctypes\n" + GOOD + "    ctypes.string_at(0)\n"
DIES_AT_IMPORT = "import ctypes\nctypes.string_at(0)\n"


@pytest.fixture
def house(house: House) -> House:
    """Backoffs long enough for no suspect's third start before a storm is seen; workers find `shipped.py`."""
    house.extra |= {
        "PYTHONPATH": f"{ROOT}:{house.folder}",
        "LAZARETTO_BACKOFF_BASE": "15s",
        "LAZARETTO_BACKOFF_CAP": "15s",
        "LAZARETTO_BEAT": "500ms",
        "LAZARETTO_WATCHDOG": "1s",  # must not take a node that has stopped claiming for one that is not served
        "LAZARETTO_RUN_DEADLINE": "20s",
    }
    return house


def ship(house: House, source: str) -> None:
    (house.folder / "shipped.py").write_text(source)


def fleet(house: House, on_storm: str = "wait") -> tuple[Program, Program]:
    return (
        house.fleet(workers=4, handler="shipped:handle", LAZARETTO_STORM=on_storm),
        house.fleet("suspects", handler="shipped:handle", LAZARETTO_STORM=on_storm),
    )


def charges(house: House, tickets: list[str]) -> Counter[str]:
    """How often each ticket was charged, by the station's records."""
    ended = {ticket: house.runs(ticket) for ticket in tickets}
    return Counter({ticket: outcomes.count("crashed") for ticket, outcomes in ended.items() if "crashed" in outcomes})


def address(node: Program) -> str:
    return str(node.wait_for_log(r"health=(http://\S+)/healthz")[1])


def reasons(node: Program) -> list[str]:
    answer = call("GET", f"{address(node)}/readyz")
    assert answer.body["ready"] == (answer.status == 200)
    return list(answer.body["reasons"])


def listen(house: House) -> str:
    """Bind a queue to the alert exchange, as anyone may, and return its name."""
    name = f"{house.prefix}.heard"

    async def bind(channel: AbstractChannel) -> None:
        queue = await channel.declare_queue(name, durable=True)
        await queue.bind(f"{house.prefix}.alerts", "fleet.*")

    on_channel(house.broker_url, bind)
    return name


def heard(house: House, queue: str) -> list[dict[str, object]]:
    async def take(channel: AbstractChannel) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        held: aio_pika.abc.AbstractIncomingMessage | None
        while held := await (await channel.get_queue(queue, ensure=False)).get(fail=False, no_ack=True):
            found.append(json.loads(held.body))
        return found

    return on_channel(house.broker_url, take)


def test_a_build_that_kills_every_worker_waits_until_another_one_comes_and_no_item_is_quarantined(house: House) -> None:
    house.door(), house.station()
    told = listen(house)
    tickets = [house.accepted("good", f"t{n}") for n in range(ITEMS)]
    ship(house, BAD)
    nodes = fleet(house)
    for node in nodes:
        node.wait_for_log("storm.tripped", 40.0)
    for node in nodes:
        assert eventually(lambda node=node: reasons(node)) == ["storm"]  # type: ignore[misc]
        assert "lazaretto_storm_guard 1.0" in call("GET", f"{address(node)}/metrics").body["text"]
    alerts = eventually(lambda: heard(house, told))
    assert [alert["state"] for alert in alerts] == ["tripped"]
    assert str(alerts[0]["build"]).startswith("shipped:handle@")
    assert len(set(alerts[0]["items"])) == 5  # type: ignore[call-overload]
    assert "signal:11" in str(alerts[0]["evidence"])
    assert alerts[0]["host"]
    for node in nodes:
        assert node.terminate() == 0
    started = len(house.starts())  # what was under way as the guard tripped has ended

    nodes = fleet(house)
    for node in nodes:
        node.wait_for_log("storm.tripped", 40.0)
        assert eventually(lambda node=node: reasons(node)) == ["storm"]  # type: ignore[misc]
    assert len(house.starts()) == started
    assert not any("watchdog.silence" in node.log for node in nodes)
    assert all(node.terminate() == 0 for node in nodes)

    ship(house, GOOD + "\n__version__ = '2'\n")
    fleet(house)
    assert house.balance(tickets, 90.0) == Counter(done=ITEMS)
    charged = charges(house, tickets)
    assert len(charged) == COUNTED
    assert max(charged.values()) < 3
    assert not heard(house, told)


def test_a_build_that_kills_every_worker_ends_its_nodes_with_5_as_often_as_they_are_started(house: House) -> None:
    house.door(), house.station()
    tickets = [house.accepted("good", f"t{n}") for n in range(ITEMS)]
    ship(house, BAD)
    assert [node.wait(60.0) for node in fleet(house, "exit")] == [5, 5]
    started = len(house.starts())
    assert [node.wait(60.0) for node in fleet(house, "exit")] == [5, 5]
    assert len(house.starts()) == started
    ship(house, GOOD)
    fleet(house)
    assert house.balance(tickets, 90.0) == Counter(done=ITEMS)
    assert len(charges(house, tickets)) == COUNTED


def test_killers_in_a_stream_of_good_items_are_convicted_one_by_one_and_stop_nothing(house: House) -> None:
    house.extra |= {"LAZARETTO_BACKOFF_BASE": "100ms", "LAZARETTO_BACKOFF_CAP": "400ms"}
    _, _, *nodes = house.open()
    stream = [("killer", f"killer-{n}") if n % 10 == 5 else ("good", f"good-{n}") for n in range(80)]
    for kind, ticket in stream:
        house.accepted(kind, ticket)
    assert house.balance((ticket for _, ticket in stream), 120.0) == Counter(done=72, quarantined=8)
    assert not any("storm.tripped" in node.log for node in nodes)
    assert Counter(start.ticket.split("-")[0] for start in house.starts()) == Counter(good=72, killer=24)


def test_a_hang_up_of_one_node_lets_all_of_them_go_on(house: House) -> None:
    house.door(), house.station()
    told = listen(house)
    tickets = [house.accepted("brittle", f"t{n}") for n in range(ITEMS)]
    nodes = house.fleet(workers=4), house.fleet("suspects")
    for node in nodes:
        node.wait_for_log("storm.tripped", 40.0)
    house.open_gate("brittle")
    nodes[0].signal(signal.SIGHUP)
    for node in nodes:
        node.wait_for_log("storm.lifted", 40.0)
    assert house.balance(tickets, 90.0) == Counter(done=ITEMS)
    assert len(charges(house, tickets)) == COUNTED
    *tripped, lifted = [(alert["state"], alert["why"]) for alert in eventually(lambda: heard(house, told))]
    assert {state for state, _ in tripped} == {"tripped"}  # told at least once: two nodes may do so at the same time
    assert lifted == ("lifted", "by SIGHUP")
    assert all(eventually(lambda node=node: not reasons(node)) for node in nodes)  # type: ignore[misc]


def test_a_ticket_that_is_known_to_be_good_lifts_the_guard_once_it_runs_again(house: House) -> None:
    house.door(), house.station()
    probe = house.folder / "probe.json"
    probe.write_text('{"kind": "brittle", "body": "known to be good"}')
    tickets = [house.accepted("brittle", f"t{n}") for n in range(ITEMS)]
    house.extra |= {"LAZARETTO_STORM_PROBE": str(probe), "LAZARETTO_STORM_PROBE_EVERY": "500ms"}
    nodes = house.fleet(workers=4), house.fleet("suspects", LAZARETTO_STORM_PROBE_EVERY="1h")
    nodes[0].wait_for_log("storm.probed kind=brittle outcome=crashed", 40.0, count=2)
    nodes[1].wait_for_log("storm.probed kind=brittle outcome=crashed", 40.0)  # its only one, also where it starts late
    assert reasons(nodes[0]) == ["storm"]
    house.open_gate("brittle")
    nodes[0].wait_for_log("storm.probed kind=brittle outcome=succeeded")
    assert house.balance(tickets, 90.0) == Counter(done=ITEMS)
    assert len(charges(house, tickets)) == COUNTED


def test_a_handler_that_dies_while_it_is_loaded_is_a_start_failure_and_touches_no_item(house: House) -> None:
    house.door(), house.station()
    ticket = house.accepted("good", "untouched")
    ship(house, DIES_AT_IMPORT)
    assert [node.wait(60.0) for node in fleet(house)] == [2, 2]
    assert not house.starts()
    ship(house, GOOD)
    fleet(house)
    assert house.balance([ticket], 60.0) == Counter(done=1)
    assert house.runs(ticket) == ["succeeded"]


def test_a_probe_that_is_no_ticket_is_a_mistake_in_the_settings(house: House, tmp_path: Path) -> None:
    for text, mistake in (("hello", "no JSON"), ("[]", "what a client submits"), (None, "No such file")):
        probe = tmp_path / "probe.json"
        probe.unlink(missing_ok=True)
        if text is not None:
            probe.write_text(text)
        node = house.fleet(LAZARETTO_STORM_PROBE=str(probe))
        assert node.wait(30.0) == 2
        assert mistake in node.log
