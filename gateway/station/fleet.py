"""What nodes last said of themselves: breakers, the storm guard, leak hunts.

Owns the table `node_states`. The newest report of a node about one subject stands, in whatever order reports arrive.
Bounded: names come from handlers, and nodes come and go.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.journal import Event
from gateway.contract.text import clip
from gateway.station.standings import insert
from gateway.station.storable import document, parsed, storable
from gateway.station.store import Store
from gateway.station.tables.nodes import node_states

MAX_KEPT: Final = 1000
"""Rows; the oldest give way. Nobody decides about them, so nothing is lost that somebody still owes an answer."""
_MAX_NAME: Final = 128
_KEY: Final = ("node", "event", "subject")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """What one node last said about one subject."""

    node: str
    event: str
    """`breaker`, `storm` or `leak`."""
    subject: str
    """The dependency of a breaker; else empty."""
    state: str
    at: float
    """Unix seconds, on the node's clock."""
    data: dict[str, Any]
    """All of the journal's event."""


async def post(transaction: AsyncConnection, events: Sequence[Event]) -> None:
    """Store what nodes say of themselves; an older report changes nothing."""
    if not events:
        return
    statement = insert(transaction.dialect.name, node_states)
    new = statement.excluded
    ours = sa.tuple_(node_states.c.at, node_states.c.event_id)
    theirs = sa.tuple_(new.at, new.event_id)
    taken = {name: new[name] for name in ("state", "document", "at", "event_id")}
    statement = statement.on_conflict_do_update(index_elements=list(_KEY), set_=taken, where=ours < theirs)
    await transaction.execute(statement, [_row(event) for event in events])
    newest_first = sa.select(node_states.c.at).order_by(node_states.c.at.desc())
    last_kept = newest_first.offset(MAX_KEPT - 1).limit(1).scalar_subquery()
    await transaction.execute(sa.delete(node_states).where(node_states.c.at < last_kept))


async def find(store: Store, limit: int = MAX_KEPT) -> list[NodeState]:
    """Return what nodes last said, the newest first."""
    query = sa.select(node_states).order_by(node_states.c.at.desc(), *(node_states.c[name] for name in _KEY))
    async with store.reading() as transaction:
        rows = (await transaction.execute(query.limit(limit))).all()
    return [
        NodeState(
            node=row.node,
            event=row.event,
            subject=row.subject,
            state=row.state,
            at=row.at,
            data=parsed(row.document),
        )
        for row in rows
    ]


def _row(event: Event) -> dict[str, Any]:
    return {
        "node": _name(event.node),
        "event": event.event.value,
        "subject": _name(event.data.get("dependency")),
        "state": _name(event.data.get("state")),
        "document": document(dict(event.data)),
        "at": event.at,
        "event_id": storable(event.id),
    }


def _name(value: object) -> str:
    return "" if value is None else clip(str(value), _MAX_NAME)
