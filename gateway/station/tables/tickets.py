"""Where each ticket stands, and how each of its licensed starts ended."""

from typing import Final

from sqlalchemy import BigInteger, Column, Float, Index, Integer, Table, Text, text

from gateway.station.tables.metadata import metadata

DIED: Final = text("outcome IN ('crashed', 'lost', 'memory')")
"""A run in which a worker or its holder died, as the index over these has it."""

FELL_SHORT: Final = text("outcome <> 'succeeded'")
"""A run that an item in quarantine may be looked for by, as the index over these has it."""

tickets: Final = Table(
    "tickets",
    metadata,
    Column("ticket", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("interruptions", BigInteger, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    Column("charged", BigInteger, nullable=False),
    Column("client", Text),
    Column("detail", Text),
    Column("bytes", BigInteger),
    Column("charset", Text),
    Column("updated_at", Float, nullable=False),
    Index("tickets_by_state", "state"),
    Index("tickets_by_client", "client", "ticket"),
    Index("tickets_by_age", "updated_at"),
)
"""Where each ticket stands: one row, merged by stamp and rank (P18). `charged` is what `attempts` cannot fall below.
`bytes` and `charset` as the door measured them: what is held is compared with what was not."""

runs: Final = Table(
    "runs",
    metadata,
    Column("ticket", Text, primary_key=True),
    Column("generation", BigInteger, primary_key=True),
    Column("attempt", BigInteger, primary_key=True),
    Column("interruptions", BigInteger, primary_key=True),
    Column("trust", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("verdict", Text),
    Column("node", Text, nullable=False),
    Column("worker", BigInteger),
    Column("lane", Text),
    Column("started_at", Float),
    Column("seconds", Float),
    Column("delay", Float),
    Column("evidence", Text, nullable=False),
    Column("event_id", Text),
    Column("reported_at", Float, nullable=False),
    # Only of the few that ended in a death: what is common costs no upkeep.
    Index("runs_lost", "reported_at", "kind", sqlite_where=DIED, postgresql_where=DIED),
    Index("runs_fell_short", "outcome", "ticket", "generation", sqlite_where=FELL_SHORT, postgresql_where=FELL_SHORT),
)
"""How each licensed start ended. `trust` orders reports of one start: what its node saw beats what was inferred."""
