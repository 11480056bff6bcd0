"""What was counted of rows that are no longer there."""

from typing import Final

from sqlalchemy import BigInteger, Column, Table, Text

from gateway.station.tables.metadata import metadata

tallies: Final = Table(
    "tallies",
    metadata,
    Column("figure", Text, primary_key=True),
    Column("label", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
)
"""What counters have to add to the rows that there are, so that they never fall. Only ever grows."""
