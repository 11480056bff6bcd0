"""The handler of these tests in workers of an ordinary user: some limits bind nobody who administers the system."""

import ctypes
import os

from tests.integration.workers.accidents import handle

__all__ = ["handle"]

_PR_SET_DUMPABLE = 4
_NOBODY = 65534

if os.getuid() == 0:
    os.setuid(_NOBODY)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # else its own /proc belongs to somebody else
