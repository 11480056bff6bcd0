"""`python -m scripts.follow PID LOG`: shows a log as it grows, and ends with the process that it is about.

For honcho, which then ends the rest, as with any other program. `tail --pid` would not do: a process that has ended and
was not waited for yet still counts as alive there.
"""

import os
import select
import signal
import subprocess
import sys
from typing import Final

DIED: Final = 3


def main(argv: list[str]) -> int:
    """Follow until the process ends; return 3 then, and 0 when asked to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        watched = os.pidfd_open(int(argv[0]))
    except ProcessLookupError:
        return DIED
    command = ["setpriv", "--pdeathsig", "TERM", "tail", "-q", "-n", "0", "-F", argv[1]]
    tail = subprocess.Popen(command)
    try:
        select.select([watched], [], [])
    finally:
        tail.terminate()
        tail.wait()
    return DIED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
