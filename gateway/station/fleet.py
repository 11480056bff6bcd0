"""What nodes last said of themselves: what they are and have, breakers, the storm guard, leak hunts.

Owns the table `node_states`. The newest report of a node about one subject stands, in whatever order reports arrive.
Bounded: names come from handlers, and nodes come and go. A node that has been silent for long is forgotten, and with it
all that it said.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.contract.journal import Event, EventName
from gateway.contract.text import clip
from gateway.station.standings import insert
from gateway.station.storable import document, parsed, storable
from gateway.station.store import Store
from gateway.station.tables.nodes import node_states

MAX_KEPT: Final = 1000
"""Rows; the oldest give way. Nobody decides about them, so nothing is lost that somebody still owes an answer."""
FORGOTTEN_AFTER: Final = 86_400.0
"""Seconds of silence after which a node is forgotten: by then whoever is on duty in the morning has seen it missing."""
_MAX_NAME: Final = 128
_KEY: Final = ("node", "event", "subject")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """What one node last said about one subject."""

    node: str
    event: str
    """`node`, `breaker`, `storm` or `leak`."""
    subject: str
    """The lane of a node, the dependency of a breaker; else empty."""
    state: str
    at: float
    """Unix seconds, on the node's clock."""
    data: dict[str, Any]
    """All of the journal's event."""
    heard_at: float | None = None
    """Unix seconds, on the station's clock; None: before it wrote that down."""


async def post(transaction: AsyncConnection, events: Sequence[Event], now: float) -> None:
    """Store what nodes say of themselves, heard `now` (Unix seconds); an older report changes nothing."""
    if not events:
        return
    statement = insert(transaction.dialect.name, node_states)
    new = statement.excluded
    ours = sa.tuple_(node_states.c.at, node_states.c.event_id)
    theirs = sa.tuple_(new.at, new.event_id)
    taken = {name: new[name] for name in ("state", "document", "at", "event_id", "heard_at")}
    statement = statement.on_conflict_do_update(index_elements=list(_KEY), set_=taken, where=ours < theirs)
    rows = sorted((_row(event, now) for event in events), key=lambda row: tuple(row[name] for name in _KEY))
    await transaction.execute(statement, rows)
    newest_first = sa.select(node_states.c.at).order_by(node_states.c.at.desc())
    last_kept = newest_first.offset(MAX_KEPT - 1).limit(1).scalar_subquery()
    is_over = sa.or_(node_states.c.at < last_kept, node_states.c.node.in_(_long_silent(now)))
    await transaction.execute(sa.delete(node_states).where(is_over))


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
            heard_at=row.heard_at,
        )
        for row in rows
    ]


def _long_silent(now: float) -> sa.Select[tuple[str]]:
    """Select nodes that used to tell of themselves; those that never did, of older versions, are not held to it."""
    told = sa.select(node_states.c.node).where(node_states.c.event == EventName.NODE.value)
    return told.group_by(node_states.c.node).having(sa.func.max(node_states.c.heard_at) < now - FORGOTTEN_AFTER)


def _row(event: Event, now: float) -> dict[str, Any]:
    subject = event.data.get("lane" if event.event is EventName.NODE else "dependency")
    return {
        "node": _name(event.node),
        "event": event.event.value,
        "subject": _name(subject),
        "state": _name(event.data.get("state")),
        "document": document(dict(event.data)),
        "at": event.at,
        "event_id": storable(event.id),
        "heard_at": now,
    }


def _name(value: object) -> str:
    return "" if value is None else clip(str(value), _MAX_NAME)
