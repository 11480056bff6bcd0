"""What a process has used: processor seconds and page faults, as the kernel counts them. Pure.

Never says anything about memory: `ru_maxrss` does not fall, and is no one run's.
"""

from typing import Final

from msgspec import Struct

from consumer.bounds import Amount, Count


class Usage(Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """Totals of a process and of its children that were waited for."""

    user: Amount = 0.0
    """Seconds of processor time, like `system`."""
    system: Amount = 0.0
    minor_faults: Count = 0
    major_faults: Count = 0
    """Those for which something had to be read from a disk."""

    def since(self, earlier: "Usage") -> "Usage":
        """Return what came on top of `earlier`; never less than nothing."""
        return Usage(
            user=max(0.0, self.user - earlier.user),
            system=max(0.0, self.system - earlier.system),
            minor_faults=max(0, self.minor_faults - earlier.minor_faults),
            major_faults=max(0, self.major_faults - earlier.major_faults),
        )


UNUSED: Final = Usage()
