"""A node is up, connected, and consumes nothing: it notices, says so, and starts over by itself (D10)."""

import asyncio
from collections import Counter

from gateway.contract.topology import Lane, Topology
from gateway.embedded import EmbeddedBroker
from tests.support.house import House, call
from tests.support.program import Program
from tests.support.proxy import Proxy
from tests.support.remaking import remake_of
from tests.support.waiting import eventually, soon

WORKERS = 4


def readiness(node: Program) -> list[str]:
    base = node.wait_for_log(r"health=(http://\S+)/healthz")[1]
    return list(call("GET", f"{base}/readyz").body["reasons"])


def metrics(node: Program) -> str:
    base = node.wait_for_log(r"health=(http://\S+)/healthz")[1]
    return str(call("GET", f"{base}/metrics").body["text"])


def prefetch(broker: EmbeddedBroker, house: House) -> int:
    """How many deliveries the broker would send to the consumers of the work lane before they acknowledge one."""
    rows = broker.ctl("-q", "list_consumers", "--no-table-headers", "queue_name", "prefetch_count").splitlines()
    found = [row.split() for row in rows]
    return sum(int(row[1]) for row in found if row[0] == f"{house.prefix}.work")


async def test_session_that_is_up_and_never_served_is_started_over_until_one_is_and_charges_nobody(
    house: House,
) -> None:
    async with Proxy(house.broker_url) as line:
        await asyncio.to_thread(house.door)
        await asyncio.to_thread(house.station)
        node = await asyncio.to_thread(
            house.node, workers=2, LAZARETTO_BROKER_URL=line.url, LAZARETTO_WATCHDOG="1500ms"
        )
        await asyncio.to_thread(house.warm_up)
        assert await asyncio.to_thread(readiness, node) == []
        line.swallow()
        tickets = [await asyncio.to_thread(house.accepted, "good", f"t{n}") for n in range(8)]
        await asyncio.to_thread(node.wait_for_log, "watchdog.silence waiting=", 30.0)
        await asyncio.to_thread(node.wait_for_log, "session.lost reason=.nothing arrives although", 30.0)
        await soon(lambda: asyncio.to_thread(lambda: readiness(node) == ["nothing_arrives"]), 30.0)
        assert not house.starts()
        line.swallow_no_more()
        assert await asyncio.to_thread(house.balance, tickets, 90.0) == Counter(done=8)
        await soon(lambda: asyncio.to_thread(lambda: not readiness(node)), 30.0)
        told = await asyncio.to_thread(metrics, node)
        assert "lazaretto_watchdog_rebuilds_total 0.0" not in told
        assert 'lazaretto_lane_waiting{lane="work"} ' in told
        outcomes = Counter(run["outcome"] for ticket in tickets for run in house.show(ticket)["runs"])
        assert outcomes.keys() <= {"succeeded", "outage"}
        assert outcomes["succeeded"] == 8


async def test_line_that_drops_every_packet_for_three_heartbeats_is_left_and_consuming_goes_on(house: House) -> None:
    async with Proxy(house.broker_url) as line:
        await asyncio.to_thread(house.door)
        await asyncio.to_thread(house.station)
        node = await asyncio.to_thread(house.node, workers=2, LAZARETTO_BROKER_URL=line.url)
        await asyncio.to_thread(house.warm_up)
        line.freeze()
        tickets = [await asyncio.to_thread(house.accepted, "good", f"t{n}") for n in range(4)]
        await asyncio.to_thread(node.wait_for_log, "session.lost", 90.0)
        line.release()
        await asyncio.to_thread(node.wait_for_log, "consumer.consuming", 60.0, count=2)
        assert await asyncio.to_thread(house.balance, tickets, 90.0) == Counter(done=4)


async def test_queues_that_are_deleted_and_made_again_before_anybody_hears_of_it_are_consumed_again(
    house: House,
) -> None:
    _, station, work, suspects = await asyncio.to_thread(house.open)
    topology = Topology(prefix=house.prefix, delay_unit=0.05)
    lanes = (topology.lane_queue(Lane.WORK), topology.lane_queue(Lane.SUSPECTS))
    for queue in (*lanes, topology.quarantine_queue, topology.journal_queue):
        await remake_of(house.broker_url, topology, queue)
    for node in (work, suspects):
        await asyncio.to_thread(node.wait_for_log, "consumer.consuming", 30.0, count=2)
    await asyncio.to_thread(station.wait_for_log, "keeper.consuming", 30.0, count=2)

    tickets = [await asyncio.to_thread(house.accepted, kind) for kind in ("good", "killer")]

    assert await asyncio.to_thread(house.balance, tickets, 60.0) == Counter(done=1, quarantined=1)


def test_broker_that_is_killed_or_loses_a_queue_is_consumed_again_with_the_same_prefetch(
    own_house: House, own_broker: EmbeddedBroker
) -> None:
    house = own_house
    house.open(workers=WORKERS)
    eventually(lambda: prefetch(own_broker, house) == WORKERS, 30.0)

    own_broker.ctl("delete_queue", f"{house.prefix}.work")
    eventually(lambda: house.submit("good", "recreated").status == 202, 60.0)
    assert house.balance(["recreated"], 60.0) == Counter(done=1)
    eventually(lambda: prefetch(own_broker, house) == WORKERS, 30.0)

    own_broker.kill()
    own_broker.start()
    eventually(lambda: house.submit("good", "restarted").status == 202, 60.0)
    assert house.balance(["restarted"], 60.0) == Counter(done=1)
    eventually(lambda: prefetch(own_broker, house) == WORKERS, 30.0)
