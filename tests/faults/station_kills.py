"""The station killed again and again while items arrive: `make soak`, or `python -m tests.faults.station_kills`.

Each time items are published, some before the station starts and some while it works, and it is killed at a moment that
the seed draws: it may be connecting, storing, acknowledging or sending alerts. In the end each item is one row with its
exact bytes, was told of through each channel at least once, and nothing is left in the queue.
"""

import argparse
import asyncio
import json
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from gateway.contract.envelope import Envelope
from gateway.contract.ids import TicketId
from gateway.contract.topology import Topology
from gateway.embedded import EmbeddedBroker
from gateway.station.sender import Sender
from gateway.station.store import Store
from gateway.station.tables.alerts import alerts
from gateway.station.tables.items import items
from tests.integration.station.conftest import Producers, Station, depth
from tests.support.program import Programs
from tests.support.waiting import soon

CHANNELS = ("exchange", "log")
_LARGEST = 64 << 10
_LATEST = 0.5
"""Seconds after the first message was consumed."""
_WITHIN = 120.0


@dataclass(slots=True)
class Kills:
    """One station on one broker, and what it was given."""

    station: Station
    producers: Producers
    sent: dict[str, str] = field(default_factory=dict)
    """Digests of bodies by ticket."""

    async def run(self, kills: int, seed: int) -> None:
        """Kill the station so often, then let it finish."""
        dice = random.Random(seed)
        for number in range(kills):
            await self._publish(dice, f"kill-{number}-before", dice.randrange(4))
            program = await asyncio.to_thread(self.station.start)
            publishing = asyncio.create_task(self._publish(dice, f"kill-{number}-while", dice.randrange(1, 8)))
            await asyncio.sleep(dice.uniform(0, _LATEST))  # when it happens is the accident
            await asyncio.to_thread(program.kill9)
            await publishing
        await asyncio.to_thread(self.station.start)

    async def judge(self) -> list[str]:
        """Wait until all is stored and told, and return what is wrong."""
        store = await Store.open(self.station.store_url)
        try:

            async def is_done() -> bool:
                async with store.reading() as transaction:
                    rows = await transaction.scalar(sa.select(sa.func.count()).select_from(items))
                    owed = await transaction.scalar(
                        sa.select(sa.func.count()).select_from(alerts).where(alerts.c.sent_at.is_(None))
                    )
                return (rows or 0) >= len(self.sent) and not owed

            await soon(is_done, _WITHIN, saying="everything is stored and told")
            async with store.reading() as transaction:
                kept = (await transaction.execute(sa.select(items.c.came_as, items.c.body))).all()
                told = (await transaction.execute(sa.select(alerts.c.ticket, alerts.c.channel))).all()
        finally:
            await store.close()
        return [*self._wrong(kept, told), *await self._left()]

    async def _publish(self, dice: random.Random, name: str, number: int) -> None:
        for one in range(number):
            ticket, body = f"{name}-{one}", dice.randbytes(dice.randrange(_LARGEST))
            self.sent[ticket] = sha256(body).hexdigest()
            item = Envelope(
                ticket=TicketId(ticket), kind="k", body=body, content_type="application/octet-stream", reason="rejected"
            )
            await self.producers.item(item)

    def _wrong(self, kept: Sequence[Any], told: Sequence[Any]) -> list[str]:
        rows = Counter(row.came_as for row in kept)
        digests = {row.came_as: sha256(row.body).hexdigest() for row in kept}
        log = "".join(program.log for program in self.station.running)
        owed = Counter((row.ticket, row.channel) for row in told)
        wrong = [f"{ticket}: {rows[ticket]} rows" for ticket in self.sent if rows[ticket] != 1]
        wrong += [f"{ticket}: other bytes" for ticket, digest in self.sent.items() if digests.get(ticket) != digest]
        wrong += [
            f"{ticket}: owed {owed[ticket, channel]} times to {channel}"
            for ticket in self.sent
            for channel in CHANNELS
            if owed[ticket, channel] != 1
        ]
        return wrong + [f"{name}: never told" for name in self.sent if f"item.quarantined ticket={name} " not in log]

    async def _left(self) -> list[str]:
        left = await depth(self.station.broker_url, self.producers.topology.quarantine_queue)
        return [f"{left} messages are left in the queue"] if left else []


async def kill(broker_url: str, programs: Programs, folder: Path, *, kills: int, seed: int) -> tuple[int, list[str]]:
    """Run one series on a broker; return how many items there were, and what was wrong."""
    prefix = f"k{uuid4().hex[:10]}"
    station = Station(programs=programs, data=folder / "data", prefix=prefix, broker_url=broker_url)
    sender, topology = Sender((broker_url,)), Topology(prefix=prefix)
    series = Kills(station=station, producers=Producers(sender=sender, topology=topology))
    try:
        await asyncio.to_thread(station.start)  # declares what producers publish to
        await asyncio.to_thread(station.program.kill9)
        await series.run(kills, seed)
        return len(series.sent), await series.judge()
    finally:
        await sender.close()


def main() -> int:
    """Kill and tell; 1 when anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder) / "broker") as broker:
        (logs := Path(folder) / "programs").mkdir()
        programs = Programs(logs)
        try:
            number, wrong = asyncio.run(kill(broker.url, programs, Path(folder), kills=asked.kills, seed=asked.seed))
        finally:
            programs.close()
    print(json.dumps({"kills": asked.kills, "seed": asked.seed, "items": number, "wrong": wrong}))
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
