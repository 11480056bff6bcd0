"""Whose an item is, until when it is to be decided, and whether it must wait, as SQL on `items`.

Owns the order: who it was given to by name, its kind's owner, the owner of all kinds. Lists, filters, figures and
reminders ask alike, so that they never tell different things.
"""

from typing import Any

import sqlalchemy as sa

from gateway.station.duties import EVERY_OTHER
from gateway.station.holding import ItemState
from gateway.station.tables.items import items
from gateway.station.tables.reviews import duties, holds


def owner() -> sa.ColumnElement[str]:
    """Whose it is; empty: nobody's in particular."""
    own, general = _duty("owner")
    return sa.func.coalesce(items.c.assigned, own, general, "")


def deadline() -> sa.ColumnElement[float]:
    """When it is to be decided at the latest, Unix seconds; null: at no time."""
    own, general = _duty("review_within")
    within = sa.func.coalesce(own, general, 0.0)
    return sa.case((within > 0, items.c.arrived_at + within), else_=sa.null())


def is_on_hold() -> sa.ColumnElement[bool]:
    """Whether somebody put its ticket on hold."""
    return sa.select(holds.c.ticket).where(holds.c.ticket == items.c.ticket).correlate(items).exists()


def is_unreviewed() -> sa.ColumnElement[bool]:
    """Whether nobody has decided it, nor said that it must wait."""
    return sa.and_(items.c.state == ItemState.HELD.value, sa.not_(is_on_hold()))


def is_overdue(now: float) -> sa.ColumnElement[bool]:
    """Whether it should have been decided before `now`."""
    return sa.and_(is_unreviewed(), deadline() < now)


def _duty(name: str) -> tuple[Any, Any]:
    # By name: within a question within a question, it would otherwise be about all items.
    own = sa.select(duties.c[name]).where(duties.c.kind == items.c.kind).correlate(items).scalar_subquery()
    general = sa.select(duties.c[name]).where(duties.c.kind == EVERY_OTHER).scalar_subquery()
    return own, general
