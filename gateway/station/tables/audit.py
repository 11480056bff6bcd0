"""The reviewers' acts."""

from typing import Final

from sqlalchemy import BigInteger, Column, Float, Index, Table, Text

from gateway.station.tables.metadata import NUMBER, metadata

audit: Final = Table(
    "audit",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    Column("ticket", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("act", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("code", Text),
    Column("operation", Text),
    Index("audit_by_ticket", "ticket", "generation"),
)
"""Who did what and why; only ever added to, which triggers in both stores see to. `code`: of a discard."""
