"""What nodes say of themselves."""

from typing import Final

from sqlalchemy import Column, Float, Index, Table, Text

from gateway.station.tables.metadata import metadata

node_states: Final = Table(
    "node_states",
    metadata,
    Column("node", Text, primary_key=True),
    Column("event", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("document", Text, nullable=False),
    Column("at", Float, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("heard_at", Float, nullable=True),
    Index("node_states_by_time", "at"),
)
"""What each node last said of itself: its breakers by dependency, its storm guard, its leak hunt, and
by lane what it is and has. `at` is on its own clock, `heard_at` on the station's."""
