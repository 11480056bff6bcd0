"""The outbox: what people are owed news of."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from gateway.station.tables.items import items
from gateway.station.tables.metadata import NUMBER, metadata

_UNSENT: Final = text("sent_at IS NULL")
"""What is still to go out, as the indexes over it have it: of all that ever was, very little."""

alerts: Final = Table(
    "alerts",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("ticket", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("event", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("text", Text),
    Column("created_at", Float, nullable=False),
    Column("due_at", Float, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("sent_at", Float),
    Column("retired_at", Float),
    Column("last_error", Text),
    UniqueConstraint("ticket", "generation", "event", "channel"),
    ForeignKeyConstraint(["ticket", "generation"], [items.c.ticket, items.c.generation]),
    Index("alerts_due", "channel", "due_at", sqlite_where=_UNSENT, postgresql_where=_UNSENT),
)
"""The outbox: one row for each item, event and channel, written in the transaction that makes it true.
`retired_at` marks what is owed to a channel that is configured no more."""

notices: Final = Table(
    "notices",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("event", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("window", Float, nullable=False),
    Column("channel", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("fields", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("due_at", Float, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("sent_at", Float),
    Column("retired_at", Float),
    Column("last_error", Text),
    UniqueConstraint("event", "subject", "window", "channel"),
    Index("notices_due", "channel", "due_at", sqlite_where=_UNSENT, postgresql_where=_UNSENT),
)
"""Alerts that are about no item in quarantine: one row for each event, subject, window and channel. Of a suspect the
subject is its ticket and the window its generation; of a storm they are the build and the moment it began."""

escalations: Final = Table(
    "escalations",
    metadata,
    Column("ticket", Text, primary_key=True),
    Column("generation", BigInteger, primary_key=True),
    Column("created_at", Float, nullable=False),
    Column("sent_at", Float),
    Column("reference", Text),
    Column("acknowledged_at", Float),
    Column("acknowledged_by", Text),
    Column("closed_at", Float),
    ForeignKeyConstraint(["ticket", "generation"], [items.c.ticket, items.c.generation], name="escalations_of_items"),
)
"""What is handed to people outside: one row for each item, written with it. Its sending is the row of `alerts` whose
channel is `escalation`; it is closed when its item is decided, and
`closed_at` is when that was told. `reference` is what the outside calls it."""
