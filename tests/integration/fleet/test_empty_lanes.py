"""A lane of size 0 is legal and visible: its node takes nothing, and what belongs there waits (C7)."""

from collections import Counter
from pathlib import Path

import pytest
from aio_pika.abc import AbstractChannel

from gateway.embedded import EmbeddedBroker
from tests.support.house import House, call
from tests.support.plain import on_channel
from tests.support.program import Program, Programs
from tests.support.waiting import eventually


@pytest.fixture
def house(broker: EmbeddedBroker, prefix: str, programs: Programs, tmp_path: Path) -> House:
    return House(programs, broker.url, prefix, tmp_path)


def waiting(house: House, lane: str) -> int:
    async def count(channel: AbstractChannel) -> int:
        declared = await channel.declare_queue(f"{house.prefix}.{lane}", passive=True)
        return declared.declaration_result.message_count or 0

    return on_channel(house.broker_url, count)


def address(node: Program) -> str:
    return node.wait_for_log(r"health=(http://\S+)/healthz")[1]


def metrics_of(node: Program) -> str:
    return str(call("GET", f"{address(node)}/metrics").body["text"])


def says_that_it_takes_nothing(node: Program) -> bool:
    node.wait_for_log("consumer.takes_nothing .*LAZARETTO_WORKERS is 0")
    ready = call("GET", f"{address(node)}/readyz")
    told = (ready.status, ready.body["slots"], "takes nothing" in ready.body["note"])
    return told == (200, 0, True) and 'lazaretto_slots{state="free"} 0.0' in metrics_of(node)


def test_suspects_wait_while_their_lane_has_no_worker_and_go_on_when_it_has(house: House) -> None:
    house.door(), house.station()
    house.node()
    closed = house.fleet("suspects", LAZARETTO_WORKERS="0")
    assert says_that_it_takes_nothing(closed)
    suspect = house.accepted("killeronce", "suspect")
    good = house.accepted("good", "good")
    house.until(good, "done")
    eventually(lambda: waiting(house, "suspects") == 1, 30.0)
    eventually(lambda: 'lazaretto_lane_waiting{lane="suspects"} 1.0' in metrics_of(closed), 30.0)
    assert house.status(suspect)["state"] == "retrying"
    assert len(house.starts(suspect)) == 1
    assert closed.terminate() == 0
    house.node("suspects")
    assert house.balance([suspect, good]) == Counter(done=2)
    assert len(house.starts(suspect)) == 2


def test_work_lane_can_be_closed_too_with_and_without_processes(house: House) -> None:
    house.door(), house.station()
    inline = ("--isolation", "inline", "--handler", "tests.support.handlers:handle_inline")
    without = house.programs.python("inline", "-m", "consumer", *inline, "--workers", "0", env=house.env)
    closed = house.fleet(workers=0)
    assert says_that_it_takes_nothing(closed)
    assert says_that_it_takes_nothing(without)
    ticket = house.accepted("good", "patient")
    eventually(lambda: waiting(house, "work") == 1)
    assert (closed.terminate(), without.terminate()) == (0, 0)
    house.node()
    assert house.balance([ticket]) == Counter(done=1)
