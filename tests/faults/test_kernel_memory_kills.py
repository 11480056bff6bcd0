"""The kernel itself kills a worker for memory: its own item pays, and is told why (failure table row 3; C6)."""

import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.support.house import HANDLER, House
from tests.support.memory_group import MemoryGroup, memory_group

_LIMIT = 400 << 20
"""Bytes: a node of two workers has half of it."""


@pytest.fixture
def small() -> Iterator[MemoryGroup]:
    with memory_group(_LIMIT) as group:
        if group is None:
            pytest.skip("no control group for memory can be made here: that takes root, and version 2 or 1 of them")
        yield group


def test_worker_that_the_kernel_kills_for_memory_is_charged_as_memory_with_its_peak(
    small: MemoryGroup, house: House
) -> None:
    house.extra["LAZARETTO_MEMORY_LIMIT"] = "4GiB"
    house.door(), house.station()
    nodes = []
    for lane in ("work", "suspects"):
        command = [sys.executable, "-m", "consumer", "--handler", HANDLER, "--lane", lane]
        nodes.append(house.programs.start(lane, small.joined(command), house.env | {"LAZARETTO_WORKERS": "1"}))
    for node in nodes:
        node.wait_for_log("consumer.consuming")
    hog = house.accepted("hog", "hog")
    others = [house.accepted("good") for _ in range(5)]

    assert house.balance([hog, *others], 60.0) == Counter(done=5, quarantined=1)

    assert house.runs(hog) == ["memory"] * 3
    assert house.evidence(hog, 3, of="code") == ["memory:kernel"] * 3
    assert house.evidence(hog, 3, of="oom_kill") == [True] * 3
    assert all(50 << 20 < peak < _LIMIT for peak in house.evidence(hog, 3, of="peak_rss"))
    assert [node.exit_code for node in nodes] == [None, None]
    assert all(house.runs(other) == ["succeeded"] for other in others)
