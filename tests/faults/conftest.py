"""One house for each fault test, on the shared broker or on one that the test may break."""

from pathlib import Path

import pytest

from gateway.embedded import EmbeddedBroker
from tests.support.house import House
from tests.support.program import Programs


@pytest.fixture
def house(broker: EmbeddedBroker, prefix: str, programs: Programs, tmp_path: Path) -> House:
    """A house on the shared broker."""
    return House(programs, broker.url, prefix, tmp_path)


@pytest.fixture
def own_house(own_broker: EmbeddedBroker, prefix: str, programs: Programs, tmp_path: Path) -> House:
    """A house on a broker of its own, which waits until new queues can be trusted."""
    return House(programs, own_broker.url, prefix, tmp_path, extra={"LAZARETTO_QUEUE_SETTLE": "4s"})
