"""How often something has happened."""

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
"""What counters tell, by `figure`: all of it, or what is to be added to the rows that are there. Only ever grows."""
