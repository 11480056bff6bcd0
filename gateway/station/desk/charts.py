"""Stacked bars over time, as numbers for an SVG template; pure.

Owns the geometry. Colours are classes of the style sheet, so that light and dark are its business; no script draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from gateway.station.trends import Trend

WIDTH: Final = 640
HEIGHT: Final = 170
_TOP: Final = 10
_BOTTOM: Final = 22
_LEFT: Final = 34
_GAP: Final = 0.22
"""Of the room for a bar, how much stays empty."""
_DAY: Final = 86400
_MOST_LABELS: Final = 8
_STEPS: Final = (1, 2, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One rectangle."""

    x: float
    y: float
    width: float
    height: float
    series: int
    told: str
    """What a person who points at it reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A word beside an axis."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """All that a template needs to draw one."""

    title: str
    unit: str
    names: Sequence[tuple[str, int]]
    """Of each series, with its sum."""
    bars: Sequence[Bar]
    times: Sequence[Label]
    lines: Sequence[Label]
    total: int
    summary: str
    """The same for ears."""


def stacked(title: str, unit: str, trend: Trend) -> Chart:
    """Draw a trend; `unit` is what is counted, in the plural."""
    span, most = trend.span, _most(trend)
    room = (WIDTH - _LEFT) / span.parts
    scale = (HEIGHT - _TOP - _BOTTOM) / most
    bars = []
    for part in range(span.parts):
        base = float(HEIGHT - _BOTTOM)
        for series, (name, counts) in enumerate(trend.series):
            if counts[part]:
                height = counts[part] * scale
                base -= height
                told = f"{_when(span.begin + part * span.width, span.width)}: {counts[part]} {name}"
                x = _LEFT + room * (part + _GAP / 2)
                bars.append(
                    Bar(
                        x=round(x, 2),
                        y=round(base, 2),
                        width=round(room * (1 - _GAP), 2),
                        height=round(height, 2),
                        series=series,
                        told=told,
                    )
                )
    every = max(1, -(-span.parts // _MOST_LABELS))
    times = [
        Label(
            x=round(_LEFT + room * (part + 0.5), 2),
            y=HEIGHT - 6,
            text=_when(span.begin + part * span.width, span.width),
        )
        for part in range(span.parts - 1, -1, -every)
    ]
    lines = [
        Label(x=_LEFT - 6, y=round(HEIGHT - _BOTTOM - value * scale, 2), text=str(value))
        for value in sorted({0, most // 2 if most % 2 == 0 else most, most})
    ]
    names = [(name, sum(counts)) for name, counts in trend.series]
    return Chart(
        title=title,
        unit=unit,
        names=names,
        bars=bars,
        times=times,
        lines=lines,
        total=trend.total,
        summary=f"{title}: {trend.total} {unit}" + "".join(f", {number} {name}" for name, number in names),
    )


def _most(trend: Trend) -> int:
    """Return the least round number that no bar is higher than."""
    highest = max((sum(parts) for parts in zip(*(counts for _, counts in trend.series), strict=True)), default=0)
    power = 1
    while True:
        for step in _STEPS:
            if step * power >= max(highest, 2):
                return step * power
        power *= 10


def _when(moment: int, width: int) -> str:
    told = datetime.fromtimestamp(moment, UTC)
    return told.strftime("%d %b").lstrip("0") if width >= _DAY else told.strftime("%H:%M")
