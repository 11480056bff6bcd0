"""A start that two tell of under two stamps: its node, and the record that travelled on the item.

Owns when these are one. The item says of a record its attempt and outcome; the number of interruptions before it is
reckoned from what is left of its history, and may be another than its node's. An attempt is charged once, so two that
tell of its charged end tell of the same, also where they name it differently: who got the redelivery says `lost` of
what its node saw crash. Never writes.
"""

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from gateway.contract.outcomes import CHARGED, Outcome
from gateway.station.ledger import Trust
from gateway.station.tables.tickets import runs

_SAME_MOMENT: Final = 0.002
"""Seconds; records that travel on an item round their times to milliseconds."""


def is_same(told: Any, seen: Any) -> bool:
    """Tell whether a record that travelled on the item is of a run that the journal told of under another stamp."""
    if (told.generation, told.attempt) != (seen.generation, seen.attempt):
        return False
    if Outcome(told.outcome) in CHARGED and Outcome(seen.outcome) in CHARGED:
        return True
    apart: float = abs((told.started_at or 0.0) - (seen.started_at or 0.0))
    return bool(told.outcome == seen.outcome) and apart < _SAME_MOMENT


def told_once(rows: Sequence[Any]) -> list[Any]:
    """Return the rows of `runs` of one generation or more without those that tell of a start once more."""
    witnessed = [row for row in rows if row.trust > Trust.HISTORY]
    return [row for row in rows if row.trust > Trust.HISTORY or not any(is_same(row, other) for other in witnessed)]


def is_told_once() -> sa.ColumnElement[bool]:
    """Select of the charged rows of `runs` those that are to be counted: each start once.

    Where a journal tells of a start, at whatever time, the item's own record of it is left out.
    """
    seen = runs.alias("seen")
    names = ("ticket", "generation", "attempt")
    of_it = (seen.c.trust > Trust.HISTORY, seen.c.outcome.in_(sorted(CHARGED)))
    same = sa.and_(*(seen.c[name] == runs.c[name] for name in names), *of_it)
    by_its_node = sa.select(seen.c.ticket).where(same).correlate(runs).exists()
    return sa.or_(runs.c.trust > Trust.HISTORY, sa.not_(by_its_node))
