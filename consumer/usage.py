"""What a process has used: processor seconds and page faults, as the kernel counts them. Pure.

Never says anything about memory: `ru_maxrss` does not fall, and is no one run's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_FIGURES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Totals of a process and of its children that were waited for."""

    user: float = 0.0
    """Seconds of processor time, like `system`."""
    system: float = 0.0
    minor_faults: int = 0
    major_faults: int = 0
    """Those for which something had to be read from a disk."""

    @classmethod
    def unpacked(cls, figures: Sequence[Any]) -> "Usage | None":
        """Read a record's figures, in the order of the fields; None for what is none: a worker may say anything."""
        numbers = [figure for figure in figures if isinstance(figure, int | float) and not isinstance(figure, bool)]
        if len(numbers) != _FIGURES or len(figures) != _FIGURES:
            return None
        user, system, minor, major = numbers
        return cls(user=float(user), system=float(system), minor_faults=int(minor), major_faults=int(major))

    def since(self, earlier: "Usage") -> "Usage":
        """Return what came on top of `earlier`; never less than nothing."""
        return Usage(
            user=max(0.0, self.user - earlier.user),
            system=max(0.0, self.system - earlier.system),
            minor_faults=max(0, self.minor_faults - earlier.minor_faults),
            major_faults=max(0, self.major_faults - earlier.major_faults),
        )
