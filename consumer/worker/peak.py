"""The peak of this process's resident memory, counted anew for each run where the kernel can do that.

Owns the descriptor for it, open from the start: a handler's limits leave no room for another one later.
"""

import os
from pathlib import Path
from typing import Final

_CLEAR_REFS: Final = Path("/proc/self/clear_refs")
_PEAK: Final = b"5"
"""See proc(5)."""


class Peak:
    """`clear_refs` of a process; some kernels and containers have none."""

    def __init__(self, clear_refs: Path = _CLEAR_REFS) -> None:
        try:
            self._descriptor = os.open(clear_refs, os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            self._descriptor = -1

    def reset(self) -> bool:
        """Set the peak back to what is resident now; False where that cannot be done."""
        try:
            os.write(self._descriptor, _PEAK)
        except OSError:
            return False
        return True
