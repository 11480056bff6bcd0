import logging

import pytest

from consumer.roundup import Roundup
from gateway.contract import logs
from gateway.contract.outcomes import Outcome


def test_one_line_tells_how_many_ended_and_how_and_nothing_is_told_twice(caplog: pytest.LogCaptureFixture) -> None:
    roundup = Roundup()
    with caplog.at_level(logging.INFO, "consumer.roundup"):
        roundup.tell()
        for outcome in (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.SUCCEEDED):
            roundup.add(outcome)
        roundup.tell()
        roundup.tell()
    (line,) = [logs.formatter("console").format(record) for record in caplog.records]
    assert line.endswith(" info consumer.roundup: runs.ended total=3 failed=1 succeeded=2")
