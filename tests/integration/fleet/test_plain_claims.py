"""The claim step without our runtime, in a consumer on plain aio-pika (C17)."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from consumer.examples import plain as example
from gateway.contract.envelope import Envelope, Loss, encode
from gateway.contract.ids import TicketId
from gateway.contract.topology import Lane, Topology
from gateway.contract.wire import Wire
from gateway.embedded import EmbeddedBroker
from tests.support.house import House
from tests.support.plain import publish
from tests.support.program import Program, Programs


@pytest.fixture
def house(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[House]:
    programs = Programs(tmp_path)
    house = House(programs, broker.url, f"t{uuid4().hex[:10]}", tmp_path)
    try:
        house.door()
        house.station()
        house.node("suspects")
        yield house
    finally:
        programs.close()


def plain_consumer(house: House) -> Program:
    return house.programs.python("plain", "-m", "tests.support.plain_consumer", env=house.env)


def test_it_finishes_good_items_and_their_client_hears_of_it(house: House) -> None:
    plain_consumer(house)
    ids = [house.accepted("good", f"plain-{n}") for n in range(5)]
    assert house.balance(ids) == {"done": 5}
    assert [len(house.starts(ticket)) for ticket in ids] == [1] * 5


def test_what_fails_every_time_is_started_exactly_three_times_and_quarantined(house: House) -> None:
    plain_consumer(house)
    house.accepted("fail", "plain-failing")
    house.until("plain-failing", "quarantined")
    assert [start.attempt for start in house.starts("plain-failing")] == [1, 2, 3]
    assert house.runs("plain-failing") == ["failed"] * 3


def test_what_is_hopeless_is_quarantined_at_once(house: House) -> None:
    plain_consumer(house)
    house.accepted("reject", "plain-hopeless")
    house.until("plain-hopeless", "quarantined")
    assert len(house.starts("plain-hopeless")) == 1


def test_what_kills_it_is_charged_before_it_runs_again_and_neighbours_come_through(house: House) -> None:
    consumer = plain_consumer(house)
    house.accepted("killer", "plain-killer")
    good = [house.accepted("good", f"beside-{n}") for n in range(4)]
    consumer.wait(30)
    plain_consumer(house)  # whoever gets the redelivery closes the run as lost; the isolation lane does the rest
    house.until("plain-killer", "quarantined", 60)
    assert [start.attempt for start in house.starts("plain-killer")] == [1, 2, 3]
    assert house.balance(["plain-killer", *good]) == {"quarantined": 1, "done": 4}


def test_what_waits_to_be_judged_is_not_run_by_a_consumer_that_cannot_judge(house: House) -> None:
    plain_consumer(house)
    loss = Loss(holder="some-node#1", beat=1.0, at=1.0)
    waiting = Envelope(ticket=TicketId("asked"), kind="good", body=b"hello", content_type="text/plain", loss=loss)
    publish(house.broker_url, Topology(prefix=house.prefix, delay_unit=0.05).to_lane(Lane.WORK), encode(waiting))
    house.until("asked", "done", 40.0)
    assert [start.attempt for start in house.starts("asked")] == [2]
    assert house.runs("asked") == ["lost", "succeeded"]


def test_what_nobody_understands_goes_to_quarantine_raw(house: House) -> None:
    plain_consumer(house)
    wire = Wire(body=b"x", headers={"lz-schema": 9}, correlation_id="later", type="k", content_type="text/plain")
    publish(house.broker_url, Topology(prefix=house.prefix, delay_unit=0.05).to_lane(Lane.WORK), wire)
    assert house.until("later", "quarantined")["id"] == "later"


def test_the_example_has_no_more_than_forty_statements() -> None:
    nodes = ast.walk(ast.parse(inspect.getsource(example)))
    assert sum(isinstance(node, ast.stmt) for node in nodes) <= 40
