"""Who is charged when links, brokers, nodes and stores go: P8 from both sides, by the holders' own signs of life."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterable

import psutil
import pytest
from aio_pika.abc import AbstractChannel

from gateway.contract.envelope import Envelope, encode
from gateway.contract.ids import TicketId
from gateway.contract.topology import Lane, Topology
from gateway.embedded import EmbeddedBroker
from tests.support.house import House
from tests.support.plain import on_channel, publish, take_and_vanish
from tests.support.program import Program
from tests.support.proxy import Proxy
from tests.support.waiting import eventually, soon


@pytest.fixture
async def line(broker: EmbeddedBroker) -> AsyncIterator[Proxy]:
    async with Proxy(broker.url) as proxy:
        yield proxy


def outcomes(house: House, tickets: Iterable[str]) -> Counter[str]:
    return Counter(outcome for ticket in tickets for outcome in house.runs(ticket))


def ready(house: House) -> int:
    async def count(channel: AbstractChannel) -> int:
        declared = await channel.declare_queue(f"{house.prefix}.work", passive=True)
        return declared.declaration_result.message_count or 0

    return on_channel(house.broker_url, count)


async def test_items_of_a_node_whose_line_was_cut_come_back_uncharged_also_to_another_node(
    house: House, line: Proxy
) -> None:
    def prepare() -> list[str]:
        house.door(), house.station()
        house.node(workers=3, LAZARETTO_BROKER_URL=line.url)
        house.warm_up()
        accepted = [house.accepted("stubborn.cut", f"held-{n}") for n in range(3)]
        eventually(lambda: len(house.starts()) == 3, 30.0)
        return accepted

    held = await asyncio.to_thread(prepare)
    other = await asyncio.to_thread(house.node, workers=3)
    line.refusing = True
    line.cut()
    await asyncio.to_thread(other.wait_for_log, "run.outage ticket=held", 40.0, count=3)
    await asyncio.to_thread(house.open_gate, "stubborn.cut")
    assert await asyncio.to_thread(house.balance, held, 60.0) == Counter(done=3)
    assert await asyncio.to_thread(outcomes, house, held) == Counter(outage=3, succeeded=3)
    assert {start.attempt for start in house.starts()} == {1}


async def test_holder_that_beats_is_alive_for_another_node_before_it_has_said_a_word_about_its_run(
    house: House, line: Proxy
) -> None:
    def prepare() -> str:
        house.door(), house.station()
        house.node(workers=1, LAZARETTO_BROKER_URL=line.url, LAZARETTO_LOST_GRACE="60s")
        house.warm_up()
        ticket = house.accepted("stubborn.mute", "held")
        eventually(lambda: house.starts(ticket), 30.0)
        return ticket

    held = await asyncio.to_thread(prepare)
    other = await asyncio.to_thread(house.node, workers=1)
    line.refusing = True
    line.cut()
    await asyncio.to_thread(other.wait_for_log, "loss.waiting ticket=held", 40.0)
    await asyncio.to_thread(other.wait_for_log, "run.outage ticket=held", 40.0)
    await soon(lambda: len(house.starts(held)) == 2, 40.0)
    await asyncio.to_thread(house.open_gate, "stubborn.mute")
    assert await asyncio.to_thread(house.balance, [held], 60.0) == Counter(done=1)
    assert [start.attempt for start in house.starts(held)] == [1, 1]
    assert "lost" not in await asyncio.to_thread(house.runs, held)


async def test_node_whose_line_is_cut_while_it_drains_ends_its_runs_before_anybody_runs_them_again(
    house: House, line: Proxy
) -> None:
    def prepare() -> Program:
        house.door(), house.station()
        draining = house.node(workers=2, LAZARETTO_BROKER_URL=line.url, LAZARETTO_DRAIN_GRACE="50s")
        house.warm_up()
        for n in range(2):
            house.accepted("stubborn.drain", f"held-{n}")
        eventually(lambda: len(house.starts()) == 2, 30.0)
        return draining

    draining = await asyncio.to_thread(prepare)
    await asyncio.to_thread(house.node, workers=2)
    draining.signal(signal.SIGTERM)
    await asyncio.to_thread(draining.wait_for_log, "drain.begun", 20.0)
    line.refusing = True
    line.cut()
    await soon(lambda: len(house.starts()) == 4, 40.0)
    before = {start.pid for start in house.starts()[:2]}
    assert not [pid for pid in before if psutil.pid_exists(pid)]
    await asyncio.to_thread(house.open_gate, "stubborn.drain")
    assert await asyncio.to_thread(house.balance, ["held-0", "held-1"], 60.0) == Counter(done=2)
    assert await asyncio.to_thread(outcomes, house, ["held-0", "held-1"]) == Counter(outage=2, succeeded=2)
    assert {start.attempt for start in house.starts()} == {1}
    assert await asyncio.to_thread(draining.wait, 30.0) == 0


def test_copy_that_somebody_held_and_lost_does_not_start_anew_what_runs_elsewhere(house: House) -> None:
    topology = Topology(prefix=house.prefix, delay_unit=0.05)
    item = Envelope(ticket=TicketId("copied"), kind="stubborn.copy", body=b"hello", content_type="text/plain")
    house.door(), house.station(), house.node(workers=1)
    house.warm_up()
    publish(house.broker_url, topology.to_lane(Lane.WORK), encode(item))
    eventually(lambda: house.starts("copied"), 30.0)
    publish(house.broker_url, topology.to_lane(Lane.WORK), encode(item))
    take_and_vanish(house.broker_url, topology.lane_queue(Lane.WORK))
    house.node(workers=1).wait_for_log("copy.dropped ticket=copied", 40.0)
    house.open_gate("stubborn.copy")
    house.until("copied", "done", 40.0)
    assert house.runs("copied") == ["succeeded"]
    assert len(house.starts("copied")) == 1


def test_frozen_node_is_dead_to_the_others_and_what_it_says_when_it_thaws_is_a_stale_copy(
    own_house: House, own_broker: EmbeddedBroker
) -> None:
    house = own_house
    house.door(), house.station()
    frozen = house.node(workers=1)
    house.warm_up()
    held = house.accepted("stubborn.frozen", "held")
    eventually(lambda: house.starts(held), 30.0)
    house.node("suspects"), house.node(workers=1)
    frozen.signal(signal.SIGSTOP)
    own_broker.ctl("close_all_connections", "the frozen one is silent")
    eventually(lambda: len(house.starts(held)) == 2, 60.0)
    frozen.signal(signal.SIGCONT)
    frozen.wait_for_log("session.lost", 40.0)
    house.open_gate("stubborn.frozen")
    assert house.balance([held], 60.0) == Counter(done=1)
    assert [start.attempt for start in house.starts(held)] == [1, 2]
    assert house.runs(held) == ["lost", "succeeded"]


@pytest.mark.timeout(400)
def test_broker_restart_with_500_items_in_flight_over_three_nodes_charges_nobody(
    own_house: House, own_broker: EmbeddedBroker
) -> None:
    house = own_house
    house.extra |= {"LAZARETTO_ISOLATION": "inline", "LAZARETTO_OUTAGE_WINDOW": "60s", "LAZARETTO_BEAT": "1s"}
    house.door(), house.station()
    nodes = [house.fleet(workers=200, handler="tests.support.handlers:handle_patiently") for _ in range(3)]
    for node in nodes:
        node.wait_for_log("consumer.consuming", 40.0)
    house.open_gate("first")
    first = [house.accepted("first", f"first-{n}") for n in range(30)]
    assert house.balance(first, 60.0) == Counter(done=30)
    tickets = [house.accepted("held", f"held-{n}") for n in range(500)]
    eventually(lambda: len(house.starts()) == 530, 60.0, saying="500 items run at once")
    own_broker.kill()
    for node in nodes:
        node.wait_for_log("session.lost", 40.0)
    own_broker.start()
    house.open_gate("held")
    assert house.balance(tickets, 180.0) == Counter(done=500)
    assert not outcomes(house, tickets).keys() - {"succeeded", "outage"}
    assert {start.attempt for start in house.starts()} == {1}


def test_drain_of_each_of_three_nodes_charges_nobody(house: House) -> None:
    house.extra["LAZARETTO_DRAIN_GRACE"] = "1s"
    house.door(), house.station()
    nodes = [house.node(workers=2) for _ in range(3)]
    house.warm_up()
    tickets = [house.accepted("slow", f"slow-{n}") for n in range(60)]
    tickets += [house.accepted("stubborn.drain", f"long-{n}") for n in range(3)]
    for n, node in enumerate(nodes):
        eventually(lambda n=n: len(house.starts()) >= 6 * (n + 1), 30.0)  # type: ignore[misc]
        assert node.terminate(60.0) == 0
        house.node(workers=2)
    house.open_gate("stubborn.drain")
    assert house.balance(tickets, 90.0) == Counter(done=63)
    assert not outcomes(house, tickets).keys() - {"succeeded", "released"}
    assert {start.attempt for start in house.starts()} == {1}


def test_broker_and_nodes_killed_together_charge_what_ran_once_and_isolation_clears_it(
    own_house: House, own_broker: EmbeddedBroker
) -> None:
    house = own_house
    house.door(), house.station()
    nodes = [house.node(workers=2), house.node(workers=2)]
    first = [house.accepted("good", f"first-{n}") for n in range(8)]
    assert house.balance(first, 60.0) == Counter(done=8)
    running = [house.accepted("wait.all", f"running-{n}") for n in range(4)]
    eventually(lambda: len([start for start in house.starts() if start.ticket in running]) == 4, 30.0)
    waiting = [house.accepted("good", f"waiting-{n}") for n in range(6)]
    for node in nodes:
        house.kill_family(node)
    own_broker.kill()
    own_broker.start()
    house.open_gate("wait.all")
    house.node("suspects"), house.node(workers=2)
    assert house.balance([*running, *waiting], 90.0) == Counter(done=10)
    assert [house.runs(ticket) for ticket in running] == [["lost", "succeeded"]] * 4
    assert outcomes(house, waiting) == Counter(succeeded=6)


@pytest.mark.timeout(300)
def test_item_that_kills_its_node_inside_outage_windows_is_started_three_times_all_the_same(
    own_house: House, own_broker: EmbeddedBroker
) -> None:
    house = own_house
    house.door(), house.station()
    nodes = {"work": house.node(), "bystander": house.node(), "suspects": house.node("suspects")}
    killer = house.accepted("nodekiller", "9417")
    innocents = [house.accepted("good", f"innocent-{n}") for n in range(10)]
    deaths = 0

    def ended() -> bool:
        nonlocal deaths
        for name, node in nodes.items():
            if node.exit_code is not None:
                deaths += 1
                assert deaths <= 5, "the killer goes on cycling"
                if deaths < 3:
                    own_broker.kill()  # all that are left have an outage window when they are handed the killer
                    own_broker.start()
                nodes[name] = house.fleet("suspects" if name == "suspects" else "work")
        return bool(house.status(killer)["state"] == "quarantined")

    eventually(ended, 150.0)
    assert house.balance([*innocents, killer], 60.0) == Counter(done=10, quarantined=1)
    assert len(house.starts(killer)) == 3
    assert house.runs(killer) == ["lost"] * 3
