"""The watchdog's rule: when silence is no accident (D10)."""

import pytest

from consumer.watchdog import Sight, Silence


def sight(at: float, waiting: int | None = 7, *, is_open: bool = True, in_flight: int = 0, arrived: int = 0) -> Sight:
    return Sight(at=at, waiting=waiting, is_open=is_open, in_flight=in_flight, arrived=arrived)


def lasting(*sights: Sight) -> list[float]:
    silence = Silence()
    return [silence.lasts(seen) for seen in sights]


def test_silence_lasts_from_the_first_look_that_finds_messages_waiting_in_vain() -> None:
    assert lasting(sight(10, 0), sight(15), sight(20), sight(30)) == [0.0, 0.0, 5.0, 15.0]


@pytest.mark.parametrize(
    "broken_by",
    [
        sight(20, 0),
        sight(20, None),
        sight(20, is_open=False),
        sight(20, in_flight=1),
        sight(20, arrived=1),
    ],
    ids=["empty-queue", "no-answer", "stopped-claiming", "something-to-do", "something-came"],
)
def test_whatever_explains_the_silence_ends_it(broken_by: Sight) -> None:
    after = [sight(at, arrived=broken_by.arrived) for at in (25, 40)]
    assert lasting(sight(10), broken_by, *after) == [0.0, 0.0, 0.0, 15.0]
