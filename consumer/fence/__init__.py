"""Licenses a start by its stamp, and remembers what was decided about it (C19).

Owns the rows of `starts` and `nodes` in the store. Never licenses a stamp that is not greater than the last one on
record for its ticket, so that copies of a message (an uncertain publish repeated, a reclaim repeated by a crash, a
dead-letter duplicate) run once. A decision is recorded before it is published: who finds it after a crash repeats it.
What a run spends is recorded with its start, and is in the decision about that start once, whoever takes it.

Every answer is durable when it is given. All requests of one moment share one transaction.

`answers` has the values and the seam, `entry` the rules, `store_fence` the batches, `on_sqlite` and `on_postgresql` one
transaction each, `slate` which of the licensed starts have begun.
"""

from consumer.fence.answers import (
    Answered,
    Conflict,
    Fence,
    FenceRefuses,
    FenceUnavailable,
    Licensed,
    Open,
    Pardoned,
    Pulse,
    Recollection,
    Superseded,
)
from consumer.fence.entry import mark_of, token_of
from consumer.fence.store_fence import StoreFence

__all__ = [
    "Answered",
    "Conflict",
    "Fence",
    "FenceRefuses",
    "FenceUnavailable",
    "Licensed",
    "Open",
    "Pardoned",
    "Pulse",
    "Recollection",
    "StoreFence",
    "Superseded",
    "mark_of",
    "token_of",
]
