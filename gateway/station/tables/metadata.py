"""The one collection that every table of the station belongs to, and the table that says how old a store is."""

from typing import Final

from sqlalchemy import BigInteger, Column, Integer, MetaData, Table

NUMBER: Final = BigInteger().with_variant(Integer, "sqlite")
"""Of rows that number themselves: SQLite does so only in a column that is called INTEGER."""

metadata: Final = MetaData()

schema: Final = Table("station_schema", metadata, Column("version", Integer, primary_key=True))
"""One row. Counted up until revisions began; what it says since then is in `gateway.station.revisions`."""
