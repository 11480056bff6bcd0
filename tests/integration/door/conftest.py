"""Doors for the tests of this folder: one that a whole file shares, or one of a test's own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from gateway.embedded import EmbeddedBroker
from tests.integration.door.running import RunningDoor, start_door
from tests.support.program import Programs

pytestmark = pytest.mark.broker

StartDoor = Callable[..., Awaitable[RunningDoor]]


@pytest.fixture(scope="module")
def door_process(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDoor]:
    """One door for all tests of a file; they share its queues, and take out what they put in."""
    folder = tmp_path_factory.mktemp("door")
    programs = Programs(folder)
    yield start_door(
        programs,
        broker_url=broker.url,
        prefix=f"t{uuid4().hex[:10]}",
        data=folder / "data",
        body_deadline="3s",
        max_tokens="20000",
    )
    programs.close()


@pytest.fixture
async def door(door_process: RunningDoor) -> AsyncIterator[RunningDoor]:
    """The file's door with a client, its queues empty."""
    async with door_process as client:
        await client.take()
        yield client


@pytest.fixture(scope="module")
def file_prefix() -> str:
    """The queues that the doors of one file use one after the other: declaring 21 new ones takes a second."""
    return f"t{uuid4().hex[:10]}"


@pytest.fixture
def start(programs: Programs, broker: EmbeddedBroker, file_prefix: str, tmp_path: Path) -> StartDoor:
    """Starts a door of the test's own with emptied queues, on the shared broker unless another URL is given."""

    async def starting(
        broker_url: str | None = None, prefix: str | None = None, *, emptied: bool = True, **settings: str
    ) -> RunningDoor:
        url, name = broker_url or broker.url, prefix or file_prefix
        # In a thread, because a line to the broker may run in this loop.
        door = await asyncio.to_thread(
            lambda: start_door(programs, broker_url=url, prefix=name, data=tmp_path / "data", **settings)
        )
        if emptied:
            await door.take()
            await door.take(door.topology.journal_queue)
        return door

    return starting
