"""The C library's own output streams: what native code prints belongs to the run that printed it.

They buffer by themselves, and Python knows nothing of that. A C library that does not name its streams as glibc and
musl do keeps its ways.
"""

import ctypes
from typing import Final

_libc: Final = ctypes.CDLL(None)
_LINE_BUFFERED: Final = 1
"""`_IOLBF`, here and there."""


def speak_by_lines() -> None:
    """Have native code's standard output leave line by line, so that it outlives a crash."""
    try:
        stdout = ctypes.c_void_p.in_dll(_libc, "stdout")
    except ValueError:
        return
    _libc.setvbuf(stdout, None, _LINE_BUFFERED, 0)


def flush() -> None:
    """Write out whatever native code has printed and not finished with a line."""
    _libc.fflush(None)
