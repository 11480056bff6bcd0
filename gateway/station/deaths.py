"""Workers that died: how many by the same item, and which kinds and builds lose more than usual; questions only.

Owns the windows that losses are counted in. Reads the newest deaths only, by an index of their own.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from gateway.station.storable import parsed
from gateway.station.store import Store
from gateway.station.surge import Threshold, surges
from gateway.station.tables.tickets import DIED, runs
from gateway.station.told_twice import is_told_once

MOST_READ: Final = 20_000
MOST_SHOWN: Final = 10
SPAN: Final = 24 * 3600.0
"""Seconds looked back for items that kill."""
RISING: Final = Threshold(window=3600.0, least=5, factor=3.0)
"""From when on a kind or a build loses more than usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Killer:
    """One item, and how many workers it took along."""

    ticket: str
    deaths: int
    first_at: float
    last_at: float
    """Unix seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rise:
    """A kind or a build under which more workers die than usual."""

    what: str
    """`kind` or `build`."""
    value: str
    deaths: int
    """In this hour, so far."""
    usual: float
    """In an hour before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """The deaths of a day."""

    deaths: int
    tickets: int
    """Different ones."""
    killers: Sequence[Killer]
    """With two deaths at least, most deaths first."""
    rising: Sequence[Rise]

    @property
    def sentence(self) -> str | None:
        """Whether few items did it, in words; None where nothing repeats."""
        if not self.killers:
            return None
        by_them = sum(one.deaths for one in self.killers)
        who = "1 item" if len(self.killers) == 1 else f"{len(self.killers)} items"
        return f"{by_them} of {self.deaths} dead workers within a day by {who}"


async def recent(store: Store, now: float) -> Losses:
    """Return what is to be said of the deaths before `now` (Unix seconds)."""
    since = min(now - SPAN, RISING.looks_back(now))
    async with store.reading() as transaction:
        rows = (await transaction.execute(query(since, now))).all()
    return summed_up(((row.ticket, row.kind, _build(row), row.reported_at) for row in rows), now)


def query(since: float, until: float) -> sa.Select[Any]:
    """Select the deaths between two moments, newest first."""
    about = (runs.c[name] for name in ("ticket", "kind", "evidence", "reported_at"))
    between = (DIED, is_told_once(), runs.c.reported_at >= since, runs.c.reported_at <= until)
    return sa.select(*about).where(*between).order_by(runs.c.reported_at.desc()).limit(MOST_READ)


def summed_up(deaths: Iterable[tuple[str, str, str | None, float]], now: float) -> Losses:
    """Sum up deaths: ticket, kind, build and moment of each; pure."""
    found = list(deaths)
    of_day = [one for one in found if one[3] >= now - SPAN]
    moments: dict[str, list[float]] = {}
    for ticket, _, _, at in of_day:
        moments.setdefault(ticket, []).append(at)
    killers = [
        Killer(ticket=ticket, deaths=len(at), first_at=min(at), last_at=max(at))
        for ticket, at in moments.items()
        if len(at) > 1
    ]
    killers.sort(key=lambda one: (-one.deaths, one.ticket))
    return Losses(
        deaths=len(of_day),
        tickets=len(moments),
        killers=killers[:MOST_SHOWN],
        rising=[
            *_rising("kind", ((kind, at) for _, kind, _, at in found), now),
            *_rising("build", ((build, at) for _, _, build, at in found if build is not None), now),
        ],
    )


def _rising(what: str, deaths: Iterable[tuple[str, float]], now: float) -> list[Rise]:
    counted = Counter((value, at // 60 * 60) for value, at in deaths)
    rows = ((value, minute, number) for (value, minute), number in counted.items())
    return [Rise(what=what, value=one.rule, deaths=one.count, usual=one.usual) for one in surges(rows, RISING, now)]


def _build(row: Any) -> str | None:
    build = (parsed(row.evidence) or {}).get("build")
    return None if build is None else str(build)
