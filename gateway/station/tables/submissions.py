"""What can come to the doors twice."""

from typing import Final

from sqlalchemy import Column, Float, Index, Integer, LargeBinary, Table, Text

from gateway.station.tables.metadata import metadata

submissions: Final = Table(
    "submissions",
    metadata,
    Column("ticket", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("held_until", Float, nullable=False),
    Column("lease", Float),
    Column("status", Integer),
    Column("answer", LargeBinary),
    Column("expires_at", Float, nullable=False),
    Index("submissions_by_expiry", "expires_at"),
)
"""What doors took in under a key or an id of the client's own. `status` is there once the broker has it,
`lease` is for how many seconds the holder gave itself; doors of an earlier version do not tell."""
