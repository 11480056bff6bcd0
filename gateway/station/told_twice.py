"""A start that two tell of under two stamps: its node, and the record that travelled on the item.

Owns when these are one. The item says of a record its attempt and outcome; the number of interruptions before it is
reckoned from what is left of its history, and may be another than its node's. Never writes.
"""

from typing import Any, Final

import sqlalchemy as sa

from gateway.contract.outcomes import CHARGED, Outcome
from gateway.station.ledger import Trust
from gateway.station.tables.tickets import runs

_SAME_MOMENT: Final = 0.002
"""Seconds; records that travel on an item round their times to milliseconds."""


def is_same(told: Any, seen: Any) -> bool:
    """Tell whether a record that travelled on the item is of a run that the journal told of under another stamp."""
    if (told.generation, told.attempt, told.outcome) != (seen.generation, seen.attempt, seen.outcome):
        return False
    if Outcome(told.outcome) in CHARGED:
        return True
    apart: float = abs((told.started_at or 0.0) - (seen.started_at or 0.0))
    return apart < _SAME_MOMENT


def is_told_once() -> sa.ColumnElement[bool]:
    """Select of the charged rows of `runs` those that are to be counted: each start once.

    Where a journal tells of a start, at whatever time, the item's own record of it is left out.
    """
    seen = runs.alias("seen")
    names = ("ticket", "generation", "attempt", "outcome")
    same = sa.and_(*(seen.c[name] == runs.c[name] for name in names), seen.c.trust > Trust.HISTORY)
    by_its_node = sa.select(seen.c.ticket).where(same).correlate(runs).exists()
    return sa.or_(runs.c.trust > Trust.HISTORY, sa.not_(by_its_node))
