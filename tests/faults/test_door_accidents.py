"""Accidents to a door of several processes under load: whoever was told 202 finds its ticket done (G1, G12, D16)."""

import asyncio
import os
import signal
from collections import Counter
from dataclasses import dataclass, field

import aiohttp
import psutil

from gateway.contract.topology import Topology
from gateway.embedded import EmbeddedBroker
from tests.integration.door.key_file import KeyFile, bearing
from tests.support.house import House, call
from tests.support.processes import those
from tests.support.program import Program
from tests.support.waiting import soon

DOORS = 3
CLIENTS = 12


@dataclass
class Load:
    """Clients that submit one ticket after the other, each on a new connection, until they are told to stop."""

    house: House
    accepted: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    over: bool = False

    async def run(self) -> None:
        await asyncio.gather(*(self._client(number) for number in range(CLIENTS)))

    async def _client(self, number: int) -> None:
        count = 0
        while not self.over:
            count += 1
            ticket = f"load-{number}-{count}"
            try:
                async with (
                    aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session,
                    session.post(
                        f"http://127.0.0.1:{self.house.door_port}/v1/tickets",
                        json={"kind": "good", "id": ticket, "body": "hello"},
                    ) as answer,
                ):
                    if answer.status == 202:
                        self.accepted.append(ticket)
                    else:
                        self.others[str(answer.status)] += 1
            except aiohttp.ClientConnectionError:
                self.others["reset"] += 1


def _processes(door: Program) -> list[psutil.Process]:
    return those(door.children(), lambda process: process.ppid() == door.pid)


async def _under_load(house: House, load: Load, more: int) -> None:
    before = len(load.accepted)
    await soon(lambda: len(load.accepted) >= before + more, 60)


async def test_one_of_three_doors_killed_under_load_loses_nothing_that_was_accepted(house: House) -> None:
    door = await asyncio.to_thread(house.door, LAZARETTO_DOOR_WORKERS=str(DOORS))
    await asyncio.to_thread(house.station)
    await asyncio.to_thread(house.node, workers=4)
    await soon(lambda: len(_processes(door)) == DOORS, 30)
    load = Load(house)
    running = asyncio.create_task(load.run())
    await _under_load(house, load, 20)

    for killed in range(1, 3):
        os.kill(_processes(door)[0].pid, signal.SIGKILL)
        await _under_load(house, load, 20)
        await soon(lambda: door.log.count("door_process_died") == killed, 30)  # noqa: B023 - asked at once
    load.over = True
    await running

    assert set(load.others) <= {"503", "reset"}
    accepted = len(set(load.accepted))
    assert accepted == len(load.accepted) >= 60
    assert await asyncio.to_thread(house.balance, load.accepted, 90.0) == Counter(done=accepted)


async def test_a_door_of_three_ended_under_load_answers_what_it_has_taken_and_loses_nothing(house: House) -> None:
    door = await asyncio.to_thread(house.door, LAZARETTO_DOOR_WORKERS=str(DOORS))
    await asyncio.to_thread(house.station)
    await asyncio.to_thread(house.node, workers=4)
    load = Load(house)
    running = asyncio.create_task(load.run())
    await _under_load(house, load, 20)

    door.signal(signal.SIGTERM)
    code = await asyncio.to_thread(door.wait)
    load.over = True
    await running

    assert code == 0
    assert set(load.others) <= {"503", "reset"}  # reset: nobody listens any more
    await asyncio.to_thread(house.door)
    assert await asyncio.to_thread(house.balance, load.accepted, 90.0) == Counter(done=len(load.accepted))


async def test_a_ticket_whose_door_was_killed_before_the_journal_had_it_is_known_to_its_client(
    house: House, broker: EmbeddedBroker
) -> None:
    keys = KeyFile(house.folder / "keys")
    ours, theirs = bearing(keys.add("acme")), bearing(keys.add("other"))
    house.extra["LAZARETTO_KEYS"] = str(keys.path)
    door = await asyncio.to_thread(house.door)
    policy, queue = f"full-{house.prefix}", f"^{Topology(prefix=house.prefix).journal_queue}$"
    full = '{"max-length": 1, "overflow": "reject-publish"}'
    await asyncio.to_thread(broker.ctl, "set_policy", "--apply-to", "queues", policy, queue, full)

    async def journal_is_held_up() -> bool:
        await asyncio.to_thread(lambda: house.submit("good", None, "hello", **theirs))
        return "journal_waits" in door.log

    await soon(journal_is_held_up, 30)

    accepted = await asyncio.to_thread(lambda: house.submit("good", None, "hello", **ours))
    assert accepted.status == 202
    await asyncio.to_thread(door.kill9)

    await asyncio.to_thread(broker.ctl, "clear_policy", policy)
    await asyncio.to_thread(house.door)
    await asyncio.to_thread(house.station)
    url = f"http://127.0.0.1:{house.door_port}/v1/tickets/{accepted.body['id']}"
    asked = asyncio.create_task(asyncio.to_thread(lambda: call("GET", f"{url}?wait=30s", None, 40.0, **ours)))
    await asyncio.to_thread(house.node)

    assert (await asked).status == 200

    async def is_done() -> bool:
        answer = await asyncio.to_thread(lambda: call("GET", url, None, 30.0, **ours))
        return bool(answer.body["state"] == "done")

    await soon(is_done, 30)
    assert (await asyncio.to_thread(lambda: call("GET", url, None, 30.0, **theirs))).status == 404
