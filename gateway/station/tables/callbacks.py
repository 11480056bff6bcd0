"""What clients are owed news of."""

from typing import Final

from sqlalchemy import BigInteger, Column, Float, Index, Integer, Table, Text, UniqueConstraint

from gateway.station.tables.metadata import NUMBER, metadata

callback_clients: Final = Table(
    "callback_clients",
    metadata,
    Column("client", Text, primary_key=True),
    Column("url", Text, nullable=False),
)
"""Who has a callback, as the station that serves read it last; the secrets stay in the key file."""

callbacks: Final = Table(
    "callbacks",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("ticket", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("client", Text, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("document", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("due_at", Float, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("first_tried_at", Float),
    Column("sent_at", Float),
    Column("dead_at", Float),
    Column("last_error", Text),
    UniqueConstraint("ticket", "generation", "state"),
    Index("callbacks_due", "client", "sent_at", "dead_at", "due_at"),
    Index("callbacks_by_sending", "sent_at"),
)
"""What clients are told of their tickets, written in the transaction that makes it true. `dead_at` marks what a client
has not taken for too long."""
