"""How setting values are written, and what is no setting."""

import pytest

from gateway.contract import knobs


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("30s", 30), ("5m", 300), ("1h", 3600), ("500ms", 0.5), ("2d", 172800), ("7", 7), (1.5, 1.5)],
)
def test_durations_are_read_in_their_unit(written: object, seconds: float) -> None:
    assert knobs.duration(written) == seconds


@pytest.mark.parametrize(("written", "size"), [("512KiB", 524288), ("4MB", 4_000_000), ("1GiB", 1 << 30), (7, 7)])
def test_sizes_are_read_in_their_unit(written: object, size: int) -> None:
    assert knobs.size(written) == size


@pytest.mark.parametrize("written", ["", "soon", "-5s", "5 parsecs", -1, True, None, "1e9"])
def test_what_is_no_duration_is_refused_with_an_example(written: object) -> None:
    with pytest.raises(ValueError, match="30s"):
        knobs.duration(written)


def test_a_misspelt_name_is_named_wherever_it_stands() -> None:
    said = knobs.unknown(["LAZARETTO_MAX_ATEMPTS", "PATH", "LAZARETTO_DATA", "lazaretto_data"], ["datta", "data"])
    assert [line.split()[0] for line in said] == ["LAZARETTO_MAX_ATEMPTS", "lazaretto_data", "datta"]
