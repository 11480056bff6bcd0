"""Exit codes of a fleet node.

0 clean · 1 own bug · 2 usage or settings · 3 broker unreachable at start · 4 topology conflict
· 5 drained by the storm guard
"""

from enum import IntEnum


class Exit(IntEnum):
    """What the process tells whoever started it."""

    CLEAN = 0
    BUG = 1
    USAGE = 2
    BROKER_UNREACHABLE = 3
    TOPOLOGY_CONFLICT = 4
    STORM = 5
