"""What has been printed leaves this process: Python's streams and the C library's.

Never fails: a handler may have closed or replaced what it likes, and has not failed at its ticket by that.
"""

import contextlib
import sys

from consumer.worker.native import flush


def write_out() -> None:
    """Write out what is buffered."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    flush()
