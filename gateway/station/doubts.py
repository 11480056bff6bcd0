"""When a replay that was begun counts as in doubt: sent, perhaps, and nobody hears of its confirm any more.

Owns that moment, for one item and for a selection. Whether it is then sent again is a person's decision.
"""

from typing import Any, Final

import sqlalchemy as sa

from gateway.station.decided import Bar, Barred
from gateway.station.holding import ItemState
from gateway.station.tables.items import items
from gateway.station.tables.operations import replays

SETTLES: Final = 15.0
"""Seconds within which a replay that was begun is confirmed or in doubt, unless its process has died."""


def still_sending(told: Any, now: float) -> Barred | None:
    """Say so where a replay, by its row of `replays`, was begun a moment ago and may be confirmed yet."""
    if told.in_doubt or abs(now - told.begun_at) >= SETTLES:  # clocks are put back
        return None
    why = f"it was begun to be sent {max(0.0, now - told.begun_at):.0f} s ago; wait {SETTLES:g} s for the confirm"
    return Barred(bar=Bar.STILL_SENDING, why=why)


def is_unconfirmed(now: float) -> sa.ColumnElement[bool]:
    """Return the same as a condition on `items`; what was replayed before there was a record of it is in doubt."""
    sending = sa.exists().where(
        replays.c.ticket == items.c.ticket,
        replays.c.generation == items.c.generation,
        replays.c.in_doubt == 0,
        replays.c.begun_at > now - SETTLES,
        replays.c.begun_at < now + SETTLES,
    )
    return sa.and_(items.c.state == ItemState.REPLAYING.value, sa.not_(sending))
