"""How the system's allocator treats what is large: given back at once, in a process that now and then holds much.

Owns that choice, which is the allocator's own to learn otherwise: each large block that is freed makes it keep larger
ones, so that a process that has read a few bodies of half a megabyte keeps what they took for good.
"""

import ctypes
from typing import Final

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Names of the two in glibc's malloc.h."""
_LARGE: Final = 256 * 1024
"""Bytes. More than orjson asks for to read what is examined in the door: twelve for each byte of a body, and for 16 KiB
of it a block that was given back each time cost 28 of 33 us. Less than one body that is worth giving back."""
_KEPT: Final = 1024 * 1024
"""Bytes that may lie free at the end of the heap, so that the next ticket finds them there."""


def give_back_what_is_large() -> None:
    """Have blocks of more than 256 KiB, and more than a MiB that is free at the end, go back when they are freed.

    Does nothing where the allocator is another one.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE)
        mallopt(_M_TRIM_THRESHOLD, _KEPT)
