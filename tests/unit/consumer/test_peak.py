import os
from pathlib import Path

from consumer.worker.peak import Peak


def test_peak_is_set_back_where_the_kernel_can_do_that() -> None:
    assert Peak().reset() == os.access("/proc/self/clear_refs", os.W_OK)


def test_kernel_without_that_counts_the_peak_of_a_life(tmp_path: Path) -> None:
    assert not Peak(tmp_path / "clear_refs").reset()
