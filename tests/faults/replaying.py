"""A station killed again and again while it replays many: `python -m tests.faults.replaying --rows 5000 --kills 50`.

The seed decides after how many items, and how long after that, each kill comes. What must hold at the end: every item
had one turn, and was published exactly once, or is shown as "unconfirmed" and was published at most once. What is
unconfirmed is resumed then, as one operation, and each of it is published once more.
"""

import argparse
import asyncio
import json
import random
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import aio_pika
import aiohttp
import sqlalchemy as sa

from gateway.contract.topology import Lane, Topology
from gateway.embedded import EmbeddedBroker
from gateway.station import progress
from gateway.station.doubts import SETTLES
from gateway.station.progress import Outcome
from gateway.station.store import Store
from gateway.station.tables.operations import replays as sent
from tests.support.house import House
from tests.support.program import Program, Programs
from tests.support.waiting import soon
from tests.unit.station.selected import hold

REASON: Final = {"reason": "the handler was fixed", "by": "ana"}
_LONGEST_DELAY: Final = 0.02
"""Seconds; an item has its turn within less."""
_WITHIN: Final = 120.0


@dataclass(slots=True)
class Found:
    """What one run left behind; `faults` is empty when all of it was right."""

    outcomes: Counter[str] = field(default_factory=Counter)
    published: int = 0
    resumed: int = 0
    kills: int = 0
    faults: list[str] = field(default_factory=list)


async def run(house: House, *, rows: int, kills: int, seed: int, pace: float = 1000.0) -> Found:
    """Replay `rows` items as one operation, asked for twice, and kill the station `kills` times meanwhile."""
    house.extra["LAZARETTO_OPERATION_LEASE"] = "1s"
    chosen, found = random.Random(seed), Found()
    store = await Store.open(f"sqlite+aiosqlite:///{house.folder / 'data' / 'station.db'}")
    try:
        for number in range(rows):
            await hold(store, f"t-{number:05}", at=float(number))
        station = await asyncio.to_thread(house.station)
        name = await _press_twice(house, rows, pace, found)
        for turns in sorted(chosen.sample(range(1, rows), kills)):
            await _until_taken(store, name, turns)
            await asyncio.sleep(chosen.uniform(0, _LONGEST_DELAY))
            station.kill9()
            found.kills += 1
            station = await asyncio.to_thread(house.station)
        await _until_taken(store, name, rows)
        await _judge(house, store, name, found, station)
        await _resume(house, store, name, found, station)
    finally:
        await store.close()
    return found


async def _press_twice(house: House, rows: int, pace: float, found: Found) -> str:
    wanted = {"act": "replay", "filter": {"kinds": ["k"]}, "pace": pace, "by": "ana"}
    press = uuid4().hex
    drafts = await asyncio.gather(*(_post(house, "", wanted, press) for _ in range(2)))
    names = {str(draft["id"]) for draft in drafts}
    if len(names) != 1 or {draft["total"] for draft in drafts} != {rows}:
        found.faults.append(f"asked twice, there are {len(names)} operations: {drafts}")
    name = names.pop()
    await asyncio.gather(*(_post(house, f"/{name}/start", {**REASON, "expect": rows}) for _ in range(2)))
    return name


async def _post(house: House, path: str, document: object, key: str = "once") -> dict[str, Any]:
    url, headers = f"http://127.0.0.1:{house.desk_port}/v1/operations{path}", {"Idempotency-Key": key}
    async with aiohttp.ClientSession() as http, http.post(url, json=document, headers=headers) as answer:
        told: dict[str, Any] = await answer.json()
        assert answer.ok, told
        return told


async def _until_taken(store: Store, name: str, turns: int) -> None:
    async def taken() -> bool:
        counted = await progress.count(store, name)
        return sum(counted.values()) - counted[Outcome.WAITING] >= turns

    await soon(taken, _WITHIN, saying=f"{turns} items had their turn")


async def _judge(house: House, store: Store, name: str, found: Found, station: Program) -> None:
    await soon(lambda: f"operation.ended operation={name}" in station.log, _WITHIN)
    copies = await _published(house)
    found.published = sum(copies.values())
    after = -1
    while lines := await progress.lines(store, name, after=after):
        for line in lines:
            found.outcomes[line.outcome] += 1
            allowed = {0, 1} if line.outcome is Outcome.UNCONFIRMED else {1}
            if line.outcome not in {Outcome.PENDING, Outcome.UNCONFIRMED} or copies[line.ticket] not in allowed:
                found.faults.append(
                    f"{line.ticket}: {line.outcome} ({line.why}), published {copies[line.ticket]} times"
                )
        after = lines[-1].position


async def _resume(house: House, store: Store, name: str, found: Found, station: Program) -> None:
    async with store.writing() as transaction:  # as if the time were over within which a confirm may come
        await transaction.execute(sa.update(sent).values(begun_at=sent.c.begun_at - SETTLES))
    draft = await _post(house, "", {"act": "resume", "pace": 1000, "by": "ben"}, "resume")
    found.resumed = draft["total"]
    await _post(house, f"/{draft['id']}/start", {**REASON, "expect": found.outcomes[Outcome.UNCONFIRMED]})
    await soon(lambda: f"operation.ended operation={draft['id']}" in station.log, _WITHIN)
    copies = [*(await _published(house)).values()]
    if copies != [1] * found.resumed or (await progress.count(store, name))[Outcome.UNCONFIRMED]:
        found.faults.append(f"{found.resumed} were resumed, and published {copies} times")


async def _published(house: House) -> Counter[str]:
    """Take what is in the work lane and count it by ticket; nobody consumes there."""
    found: Counter[str] = Counter()
    async with await aio_pika.connect(house.broker_url) as connection:
        channel = await connection.channel()
        queue = await channel.get_queue(Topology(prefix=house.prefix).lane_queue(Lane.WORK), ensure=False)
        while message := await queue.get(no_ack=True, fail=False):
            found[str(message.correlation_id)] += 1
    return found


def main() -> None:
    """Run it on a broker of its own, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lazaretto-replaying-") as name, EmbeddedBroker(Path(name) / "b") as broker:
        folder = Path(name) / "house"
        folder.mkdir()
        programs = Programs(folder)
        try:
            house = House(programs, broker.url, f"t{uuid4().hex[:10]}", folder)
            found = asyncio.run(run(house, rows=chosen.rows, kills=chosen.kills, seed=chosen.seed))
        finally:
            programs.close()
    told = {"seed": chosen.seed, "kills": found.kills, "outcomes": found.outcomes, "published": found.published}
    told["resumed"] = found.resumed
    print(json.dumps({**told, "faults": found.faults}, indent=2))
    raise SystemExit(1 if found.faults else 0)


if __name__ == "__main__":
    main()
