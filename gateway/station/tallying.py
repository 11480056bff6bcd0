"""Figures that are kept instead of counted: how often something has happened, told by one row for each label.

Owns the table `tallies`. Whoever makes something true counts it in the same transaction, so that a counter is right
whatever happens to a process, never falls, and costs the same to read however many rows there have been. Counts come
last in a transaction: a row of them is wanted by everybody, and is locked until its end.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.station.standings import insert
from gateway.station.tables.tallies import tallies

QUARANTINED: Final = "quarantined"
"""Items taken in; labels are made of kind and reason."""
EVENTS: Final = "events"
"""Events of the journal taken in, by name; one that is delivered twice counts twice."""
SENT: Final = "alerts_sent"
FAILED: Final = "alerts_failed"
"""Alerts that went out, and tries that did not, by channel."""
REMOVED: Final = "removed"
"""Rows that were over, by table."""
CALLBACKS: Final = "callbacks"
SURGES: Final = "surges"
"""Of rows that are gone: callbacks by result, surges by rule."""


def label(*parts: str) -> str:
    """Return several values as one label."""
    return orjson.dumps(parts).decode()


def parts(label: str) -> tuple[str, ...]:
    """Return what `label` was given."""
    return tuple(orjson.loads(label))


async def add(transaction: AsyncConnection, figure: str, more: Mapping[str, int]) -> None:
    """Count that so many more of each label have happened."""
    # In one order, or two transactions may each wait for a row that the other has.
    rows: Sequence[dict[str, Any]] = [
        {"figure": figure, "label": label, "number": number} for label, number in sorted(more.items()) if number
    ]
    if rows:
        statement = insert(transaction.dialect.name, tallies)
        raised = {"number": tallies.c.number + statement.excluded.number}
        await transaction.execute(
            statement.on_conflict_do_update(index_elements=["figure", "label"], set_=raised), rows
        )


async def read(transaction: AsyncConnection) -> dict[str, dict[str, int]]:
    """Return all that was counted, by figure and label."""
    found: dict[str, dict[str, int]] = {}
    for row in await transaction.execute(sa.select(tallies)):
        found.setdefault(row.figure, {})[row.label] = row.number
    return found
