"""What was refused, how often, and what was let in although it was."""

from typing import Final

from sqlalchemy import BigInteger, Column, Float, Index, Table, Text

from gateway.station.tables.metadata import metadata

refusals: Final = Table(
    "refusals",
    metadata,
    Column("id", Text, primary_key=True),
    Column("at", Float, nullable=False),
    Column("ticket", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("client", Text),
    Column("bytes", BigInteger),
    Column("digest", Text),
    Column("violations", Text, nullable=False),
    Column("sample", Text),
    Index("refusals_by_time", "at"),
)
"""What door or consumer said no to."""

refusal_facts: Final = Table(
    "refusal_facts",
    metadata,
    Column("refusal", Text, primary_key=True),
    Column("facts", Text, nullable=False),
)
"""What was measured of a refused request, and the limits it was held to."""

refusal_counts: Final = Table(
    "refusal_counts",
    metadata,
    Column("rule", Text, primary_key=True),
    Column("minute", BigInteger, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Index("refusal_counts_by_minute", "minute"),
)
"""How many refusals a rule has caused, by the minute (Unix seconds of its beginning): what rates are told from."""

passes: Final = Table(
    "passes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("refusal", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("client", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("given_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("used_at", Float),
    Column("ticket", Text),
    Index("passes_by_expiry", "expires_at"),
)
"""What reviewers let in although it was refused: one body of one client."""
