"""An executor whose broker takes nothing, for tests of what operations do in the store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from gateway.contract.topology import Topology
from gateway.station import operations
from gateway.station.executor import Executor
from gateway.station.operations import Operation, State
from gateway.station.sender import Sender
from gateway.station.store import Store
from tests.support.waiting import soon

NOBODY: Final = "amqp://guest:guest@127.0.0.1:1/"


@asynccontextmanager
async def executing(store: Store, *, lease: float = 30.0) -> AsyncIterator[Executor]:
    """Have operations done meanwhile, as far as that takes no broker."""
    stop, sender = asyncio.Event(), Sender((NOBODY,))
    executor = Executor(store=store, sender=sender, topology=Topology(), replay_limit=0, lease=lease)
    running = asyncio.create_task(executor.run(stop))
    try:
        yield executor
        assert not running.done()
    finally:
        stop.set()
        await running
        await sender.close()


async def until(store: Store, name: str, state: State, *, note: str | None = None) -> Operation:
    """Wait for a state of an operation, and for words of its note."""

    async def reached() -> Operation | None:
        one = await operations.find(store, name)
        assert one is not None
        fits = one.state is state and (note is None or note in (one.note or ""))
        return one if fits else None

    found = await soon(reached, within=30, saying=f"operation {name} is {state} ({note})")
    assert found is not None
    return found
