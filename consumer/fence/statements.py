"""The fence's SQL, written once for both stores; how each of them names and passes many rows is its own.

Whoever passes them keeps to the order of `COLUMNS`.
"""

from typing import Final

from consumer.fence.entry import COLUMNS

_LISTED: Final = ", ".join(COLUMNS)

LOCK: Final = "SELECT pg_advisory_xact_lock(key) FROM unnest(CAST(:keys AS bigint[])) AS key"
"""Of tickets that have no row yet, which nobody else could lock. In the order of the keys, so that two nodes never
wait for each other."""

BEAT: Final = (
    "INSERT INTO nodes (node, lane, beat_at, every) VALUES (:node, :lane, :beat_at, :every) ON CONFLICT (node) "
    "DO UPDATE SET lane = excluded.lane, beat_at = excluded.beat_at, every = excluded.every"
)
PULSE: Final = "SELECT beat_at, every FROM nodes WHERE node = :node"
FORGET_NODES: Final = "DELETE FROM nodes WHERE beat_at < :silent_since"
FORGET_STARTS: Final = (
    "DELETE FROM starts WHERE ticket IN "
    "(SELECT ticket FROM starts WHERE ended_at < :ended_before ORDER BY ended_at LIMIT :at_most)"
)


def read(tickets: str) -> str:
    """Return the statement that reads the rows of some tickets: what stands behind `ticket` in its condition."""
    return f"SELECT {_LISTED} FROM starts WHERE ticket {tickets}"  # noqa: S608  columns and placeholders, nothing else


def write(rows: str) -> str:
    """Return the statement that writes rows, whichever of them are there: `VALUES ...` or `SELECT ...`."""
    taken = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS[1:])
    return f"INSERT INTO starts ({_LISTED}) {rows} ON CONFLICT (ticket) DO UPDATE SET {taken}"
