"""A few kills of the station; `make soak` does fifty."""

from pathlib import Path

import pytest

from gateway.embedded import EmbeddedBroker
from tests.faults.station_kills import kill
from tests.support.program import Programs


@pytest.mark.timeout(300)
async def test_a_station_killed_at_any_moment_keeps_one_row_of_each_item_and_tells_of_it(
    broker: EmbeddedBroker, programs: Programs, tmp_path: Path
) -> None:
    number, wrong = await kill(broker.url, programs, tmp_path, kills=5, seed=1)
    assert number > 5
    assert wrong == []
