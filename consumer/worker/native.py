"""The C library's own standard output: what native code prints belongs to the run that printed it.

It buffers by itself, and Python knows nothing of that. A C library that calls its stream otherwise keeps its ways.
"""

import ctypes
from typing import Final

_libc: Final = ctypes.CDLL(None)
_LINE_BUFFERED: Final = 1
"""`_IOLBF`, here and there."""


def _find_stdout() -> ctypes.c_void_p | None:
    try:
        return ctypes.c_void_p.in_dll(_libc, "stdout")
    except ValueError:
        return None


_stdout: Final = _find_stdout()
"""The variable itself: whoever gives it another stream is heard."""


def speak_by_lines() -> None:
    """Have native code's output leave line by line, so that it outlives a crash."""
    if _stdout is not None:
        _libc.setvbuf(_stdout, None, _LINE_BUFFERED, 0)


def flush() -> None:
    """Write out what native code has printed and not finished with a line.

    This stream alone: to flush all of them would wait for whoever holds one, and a thread that a handler has left
    behind may read from one for ever.
    """
    if _stdout is not None:
        _libc.fflush(_stdout)
