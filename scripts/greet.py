"""Waits until the door would take a ticket, then prints where everything is and one `curl` to try."""

import os
import sys
import time
import urllib.error
import urllib.request
from typing import Final

from gateway.contract import knobs

PATIENCE: Final = 120.0
"""Seconds until it gives up; a door that will not start says so itself."""


def main() -> int:
    """Print the greeting once `/readyz` answers 200; return 1 if that does not happen."""
    table = knobs.read_table(os.environ)
    door = os.environ.get("LAZARETTO_DOOR") or str(table.get("door") or "127.0.0.1:8080")
    desk = os.environ.get("LAZARETTO_DESK") or str(table.get("desk") or "127.0.0.1:8081")
    deadline = time.monotonic() + PATIENCE
    parent = os.getppid()
    while not _ready(f"http://{door}/readyz"):
        if time.monotonic() > deadline or os.getppid() != parent:
            return 1
        time.sleep(0.2)  # a starting server announces itself by answering, and by nothing else
    sys.stdout.write(f"""
Lazaretto is up.   door http://{door}   desk http://{desk}

Try:
  curl -i http://{door}/v1/tickets -H 'Content-Type: application/json' \\
       -d '{{"kind": "support.ticket", "subject": "Login fails", "body": "Nobody can log in: error 500."}}'
and then GET the status_url of the answer. Ctrl-C stops everything.

""")
    sys.stdout.flush()
    return 0


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - the scheme is ours
            return bool(answer.status == 200)  # noqa: PLR2004 - HTTP's word for yes
    except (urllib.error.URLError, OSError):
        return False


if __name__ == "__main__":
    sys.exit(main())
