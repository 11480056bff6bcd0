"""What is held aside for a person, and the raw files of what could not be held as it is."""

from typing import Final

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, Table, Text, text

from gateway.station.tables.metadata import metadata

_DECIDED: Final = text("decided_at IS NOT NULL")

items: Final = Table(
    "items",
    metadata,
    Column("ticket", Text, primary_key=True),
    Column("generation", BigInteger, primary_key=True),
    Column("came_as", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("detail", Text),
    Column("malformed", Integer, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    Column("crashes", BigInteger, nullable=False),
    Column("interruptions", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("digest", Text, nullable=False),
    Column("properties", LargeBinary, nullable=False),
    Column("content_type", Text),
    Column("content_encoding", Text),
    Column("headers", Text, nullable=False),
    Column("admission", Text),
    Column("history_total", BigInteger, nullable=False),
    Column("spool_path", Text),
    Column("submitted_at", Float),
    Column("arrived_at", Float, nullable=False),
    Column("decided_at", Float),
    Column("decided_by", Text),
    Column("decision_reason", Text),
    Column("removed_at", Float),
    Column("removed_bytes", BigInteger),
    Column("decision_code", Text),
    Column("assigned", Text),
    Column("cause", Text),
    Column("build", Text),
    Index("items_by_state", "state", "arrived_at", "ticket", "generation", "kind", "assigned"),
    Index("items_by_kind", "state", "kind", "arrived_at"),
    Index("items_by_reason", "state", "reason", "arrived_at"),
    Index("items_by_text", "state", "arrived_at", "ticket", "generation", "detail"),
    Index("items_by_arrival", "arrived_at", "kind"),
    Index("items_by_removal", "removed_at", "decided_at", sqlite_where=_DECIDED, postgresql_where=_DECIDED),
    Index("items_by_cause", "cause", "state", "arrived_at", "build", "ticket"),
)
"""What is held aside, one row for each generation that ended here. `came_as` is the ticket id it arrived under, which
another item may have had first. `properties` holds the message's properties and header table as AMQP bytes, so that a
replay sends what came and not what a document format made of it. From `removed_at` on a row is a tombstone: body,
properties and headers are empty, `removed_bytes` is the body's size as it was.
What is asked of many items is in the indexes as a whole: behind a body, a column is as far away as the body is long.
`assigned`: whose it is where that is not its kind's owner. `cause` and `build`: of its last run, as `grouping` reads
it; none where that is still to come."""

spooled: Final = Table(
    "spooled",
    metadata,
    Column("path", Text, primary_key=True),
    Column("at", Float, nullable=False),
    Column("source", Text, nullable=False),
    Column("error", Text, nullable=False),
)
"""Raw files of messages that could not be stored as they are (P19)."""
