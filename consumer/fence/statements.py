"""The fence's SQL, written once: both stores know these statements and this way to name parameters."""

from typing import Final

from consumer.fence.entry import COLUMNS

_LISTED: Final = ", ".join(COLUMNS)

READ_ONE: Final = f"SELECT {_LISTED} FROM starts WHERE ticket = :ticket"  # noqa: S608  columns, nothing else
READ_AND_LOCK: Final = (
    f"SELECT {_LISTED} FROM starts WHERE ticket = ANY (CAST(:tickets AS varchar[])) ORDER BY ticket FOR UPDATE"  # noqa: S608  the same
)
WRITE: Final = (
    f"INSERT INTO starts ({_LISTED}) VALUES ({', '.join(f':{name}' for name in COLUMNS)}) "  # noqa: S608  the same
    f"ON CONFLICT (ticket) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in COLUMNS[1:])}"
)
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
