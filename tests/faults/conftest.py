"""Houses for fault tests: one that stands for a whole module, one for a single test, one on a broker it may break."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from gateway.embedded import EmbeddedBroker
from tests.support.house import House
from tests.support.program import Programs


@pytest.fixture(scope="module")
def standing(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Door, station and a node for each lane, all ready, shared by tests that break nothing but workers."""
    folder = tmp_path_factory.mktemp("standing")
    programs = Programs(folder)
    house = House(programs, broker.url, f"t{uuid4().hex[:10]}", folder, extra={"LAZARETTO_RUN_DEADLINE": "3s"})
    try:
        house.open(workers=4)
        yield house
    finally:
        programs.close()


@pytest.fixture
def house(broker: EmbeddedBroker, prefix: str, programs: Programs, tmp_path: Path) -> House:
    """A house on the shared broker; nothing is started yet."""
    return House(programs, broker.url, prefix, tmp_path)


@pytest.fixture
def own_house(own_broker: EmbeddedBroker, prefix: str, programs: Programs, tmp_path: Path) -> House:
    """A house on a broker of its own, which waits until new queues can be trusted."""
    return House(programs, own_broker.url, prefix, tmp_path, extra={"LAZARETTO_QUEUE_SETTLE": "4s"})
