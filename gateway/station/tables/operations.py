"""What is done with many items at once, and how each replay was sent."""

from typing import Final

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, Table, Text, UniqueConstraint

from gateway.station.tables.metadata import metadata

operations: Final = Table(
    "operations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("token", Text),
    Column("act", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("lane", Text),
    Column("code", Text),
    Column("pace", Float, nullable=False),
    Column("canary", Integer, nullable=False),
    Column("request", Text, nullable=False),
    Column("total", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("started_at", Float),
    Column("started_by", Text),
    Column("reason", Text),
    Column("passed_at", Float),
    Column("ended_at", Float),
    Column("note", Text),
    Column("holder", Text),
    Column("held_until", Float),
    UniqueConstraint("token", name="operations_by_token"),
    Index("operations_by_state", "state", "created_at"),
)
"""One row for each replay, resume or discard of many. `passed_at`: when its canary had succeeded; `note`: why it stands
still; `holder`: the process that works on it, until `held_until` unless that is renewed."""

operation_items: Final = Table(
    "operation_items",
    metadata,
    Column("operation", Text, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("ticket", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("why", Text),
    Column("at", Float),
    UniqueConstraint("operation", "ticket", "generation", name="operation_items_once"),
    Index("operation_items_by_state", "operation", "state", "position"),
)
"""The frozen selection. A row says only whether its turn has come (`waiting`, `taken`, `skipped`): what became of a
taken item is told by the item itself."""

replays: Final = Table(
    "replays",
    metadata,
    Column("ticket", Text, primary_key=True),
    Column("generation", BigInteger, primary_key=True),
    Column("lane", Text, nullable=False),
    Column("operation", Text),
    Column("by", Text, nullable=False),
    Column("begun_at", Float, nullable=False),
    Column("in_doubt", Integer, nullable=False),
    Column("confirmed_at", Float),
    Column("content_type", Text),
    Column("body", LargeBinary),
    Column("admission", Text),
    Column("difference", Text),
)
"""How an item's next generation was sent: one row for each item that was replayed, under the item's own generation.
`body` and what belongs to it are there when it was edited; the item keeps its own."""
