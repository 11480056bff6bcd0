"""What has been printed leaves this process: Python's streams and the C library's.

Never fails: a handler may have closed or replaced what it likes, and has not failed at its ticket by that.
"""

import sys
from typing import TextIO

from consumer.worker.native import flush


def write_out() -> None:
    """Write out what is buffered."""
    _flush(sys.stdout)
    _flush(sys.stderr)
    flush()


def _flush(stream: TextIO) -> None:
    try:  # noqa: SIM105 - a context manager would cost more than what it is around, after each run
        stream.flush()
    except Exception:  # noqa: BLE001, S110 - the handler's own doing
        pass
