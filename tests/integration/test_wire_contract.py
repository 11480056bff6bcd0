"""Whatever a running house puts on its queues and exchanges is described in the document that its door serves."""

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage, AbstractQueue

from gateway.contract.topology import Lane, Topology
from gateway.contract.wire import Wire
from gateway.embedded import EmbeddedBroker
from tests.support.asyncapi import Described
from tests.support.house import House, call
from tests.support.program import Programs
from tests.support.received import received
from tests.support.waiting import soon

pytestmark = pytest.mark.broker


class _Tap:
    """Queues of the test's own, which get a copy of whatever is published to an exchange."""

    def __init__(self, queues: dict[str, AbstractQueue]) -> None:
        self._queues = queues
        self.heard: dict[str, list[Wire]] = defaultdict(list)

    async def listen(self) -> None:
        for address, queue in self._queues.items():
            self.heard[address] += map(received, await _taken(queue, no_ack=True))

    async def has(self, address: str, *types: str) -> bool:
        await self.listen()
        came = [wire.type for wire in self.heard[address]]
        return all(came.count(name) >= types.count(name) for name in types)


@asynccontextmanager
async def _tapped(url: str, topology: Topology) -> AsyncIterator[_Tap]:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        queues = {}
        for exchange in topology.exchanges():
            queue = queues[exchange.name] = await channel.declare_queue(exclusive=True)
            for key in Lane if exchange.type == "direct" else ("#",):
                await queue.bind(exchange.name, key)
        yield _Tap(queues)


async def _taken(queue: AbstractQueue, *, no_ack: bool) -> list[AbstractIncomingMessage]:
    found = []
    while (message := await queue.get(no_ack=no_ack, fail=False)) is not None:
        found.append(message)
    return found


async def _waiting(url: str, queue: str) -> list[Wire]:
    """Look at what waits in a queue and leave it there."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        return [received(message) for message in await _taken(await channel.get_queue(queue), no_ack=False)]


async def _told(house: House, topology: Topology, wanted: Iterable[str]) -> list[Wire]:
    wires = await _waiting(house.broker_url, topology.journal_queue)
    events = {event["event"] for wire in wires for event in json.loads(wire.body)}
    return wires if events >= set(wanted) else []


async def test_every_message_of_a_running_house_is_described(
    broker: EmbeddedBroker, prefix: str, programs: Programs, tmp_path: Path
) -> None:
    house, topology = House(programs, broker.url, prefix, tmp_path), Topology(prefix=prefix, delay_unit=0.05)
    house.door()
    described = Described(call("GET", f"http://127.0.0.1:{house.door_port}/asyncapi.json").body)
    async with _tapped(broker.url, topology) as tap:
        nodes = [house.fleet(), house.fleet("suspects")]
        for node in nodes:
            node.wait_for_log("consumer.consuming")
        for kind in ("good", "fail", "killer", "killeronce", "reject"):
            house.accepted(kind, f"a-{kind}")
        assert house.submit("good", "refused", "\0").status == 422
        async with await aio_pika.connect(broker.url) as connection:
            entry = await (await connection.channel()).get_exchange(prefix, ensure=False)
            await entry.publish(aio_pika.Message(b"hello", type="good", correlation_id="theirs"), Lane.WORK)
            await entry.publish(aio_pika.Message(b"?", headers={"lz-schema": 9}, type="unread"), Lane.WORK)

        held = topology.to_quarantine("").exchange
        await soon(lambda: tap.has(held, "fail", "killer", "reject", "unread"), 60)
        # While no station takes it.
        told = await soon(lambda: _told(house, topology, ("accepted", "refused", "finished", "quarantined")), 30)
        house.station()
        await soon(lambda: tap.has(topology.alerts_exchange, *["item.quarantined"] * 4), 30)
        decision = ("--by", "ada", "--reason", "read")
        assert house.command("discard", "a-reject", *decision).returncode == 0
        assert house.command("replay", "a-fail", *decision).returncode == 0
        await soon(lambda: tap.has(topology.alerts_exchange, "item.resolved", "item.resolved"), 30)
        await tap.listen()

    tap.heard[topology.journal_queue] = told
    (unread,) = [wire for wire in tap.heard[prefix] if wire.type == "unread"]
    with pytest.raises(AssertionError, match="what is not described"):
        described.kind_of(prefix, unread)
    tap.heard[prefix].remove(unread)
    names = {described.kind_of(address, wire) for address, wires in tap.heard.items() for wire in wires}
    assert names == {
        *("item", "stranger", "exhausted", "malformed", "journal"),
        *("item_suspect", "item_quarantined", "item_resolved"),
    }
    assert {address for address, wires in tap.heard.items() if wires} >= {
        *(prefix, held, topology.alerts_exchange, topology.journal_queue)
    }
    assert [address for address, wires in tap.heard.items() if wires and ".delay." in address]
