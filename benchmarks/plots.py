"""Results as pictures: horizontal bars, and lines over time, as SVG that needs no script.

Owns geometry and templates. Jinja2 is here anyway and two forms are all that is drawn: a plotting library would bring
more (matplotlib: NumPy and eight others) than it saves.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jinja2

_TEMPLATES: Final = Path(__file__).resolve().parent / "templates"
_WIDTH: Final = 720
_LEFT: Final = 210
_ROOM: Final = 410
_TOP: Final = 56
_STEP: Final = 26
_LINES_LEFT: Final = 64
_LINES_RIGHT: Final = 700
_LINES_HEIGHT: Final = 240
_LINES_BOTTOM: Final = 210
_environment: Final = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """One bar for each name; those of ours stand out."""

    title: str
    unit: str
    values: Mapping[str, float]
    ours: frozenset[str]

    def svg(self) -> str:
        """Draw it."""
        most = max(self.values.values(), default=0.0) or 1.0
        bars = [
            {
                "name": name,
                "y": _TOP + _STEP * place,
                "length": round(_ROOM * value / most, 1),
                "told": told(value),
                "ours": name in self.ours,
            }
            for place, (name, value) in enumerate(self.values.items())
        ]
        height = _TOP + _STEP * len(bars) + 8
        return _draw("bars.svg", width=_WIDTH, height=height, title=self.title, unit=self.unit, bars=bars, left=_LEFT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Values over time from 0 on, one each `step` seconds; the first line stands out."""

    title: str
    unit: str
    step: float
    lines: Mapping[str, Sequence[float]]

    def svg(self) -> str:
        """Draw it."""
        most = _round_up(max((max(values, default=0.0) for values in self.lines.values()), default=0.0))
        longest = max(map(len, self.lines.values()), default=1)
        across, high = (_LINES_RIGHT - _LINES_LEFT) / max(1, longest - 1), (_LINES_BOTTOM - _TOP) / most
        drawn = [
            {
                "name": name,
                "tone": "b" if place else "a",
                "points": " ".join(
                    f"{_LINES_LEFT + across * at:.1f},{_LINES_BOTTOM - high * value:.1f}"
                    for at, value in enumerate(values)
                ),
            }
            for place, (name, values) in enumerate(self.lines.items())
        ]
        marks = [{"y": round(_LINES_BOTTOM - high * value, 1), "told": told(value)} for value in (most / 2, most)]
        return _draw(
            "lines.svg",
            width=_WIDTH,
            height=_LINES_HEIGHT,
            title=self.title,
            unit=self.unit,
            lines=list(reversed(drawn)),
            marks=marks,
            until=told(longest * self.step),
            left=_LINES_LEFT,
            right=_LINES_RIGHT,
            bottom=_LINES_BOTTOM,
        )


def told(value: float) -> str:
    """Return a number as people write it: three digits that matter, thousands apart."""
    if value == 0 or abs(value) >= 100:  # noqa: PLR2004  from here on whole ones are three digits
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:.0f}"


def _round_up(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value) if value > 0 else 1.0


def _draw(template: str, **facts: object) -> str:
    return _environment.get_template(template).render(**facts) + "\n"
