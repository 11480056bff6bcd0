"""Latencies as a histogram of high dynamic range: three digits of every value, from a microsecond to ten minutes.

Pure. Histograms of several runs add up to one, which averages of percentiles never do; written down they are a line
of text. No sample is left out, also not the worst.
"""

from collections.abc import Iterable
from typing import Final, Self

from hdrh.histogram import HdrHistogram

_LOWEST_US: Final = 1
_HIGHEST_US: Final = 600_000_000
_DIGITS: Final = 3
_TOLD: Final = (50.0, 90.0, 99.0, 99.9, 100.0)


class Latencies:
    """Latencies of one run, or of several."""

    def __init__(self, seconds: Iterable[float] = ()) -> None:
        self._histogram = HdrHistogram(_LOWEST_US, _HIGHEST_US, _DIGITS)
        for value in seconds:
            self._histogram.record_value(min(_HIGHEST_US, max(_LOWEST_US, round(value * 1e6))))

    @classmethod
    def read(cls, text: str) -> Self:
        """Read what `write` wrote."""
        found = cls()
        found._histogram.decode_and_add(text.encode())
        return found

    def write(self) -> str:
        """Return the histogram in the text form that all HdrHistogram libraries read."""
        encoded: bytes = self._histogram.encode()
        return encoded.decode()

    def add(self, other: "Latencies") -> None:
        """Take in the latencies of another run."""
        self._histogram.add(other._histogram)  # noqa: SLF001  of the same class

    def ms(self, percentile: float) -> float:
        """Return the latency in milliseconds that so many percent of all (0 to 100) do not exceed."""
        value: int = self._histogram.get_value_at_percentile(percentile)
        return round(value / 1000, 3)

    def percentiles(self) -> dict[str, float]:
        """Return milliseconds by percentile, for a reader; `max` is the worst that was seen."""
        return {"max" if value == max(_TOLD) else f"p{value:g}": self.ms(value) for value in _TOLD}


def merged(runs: Iterable[Latencies]) -> Latencies:
    """Return the latencies of all runs together."""
    everything = Latencies()
    for one in runs:
        everything.add(one)
    return everything
