"""Fills a peer's queue with its own library, in its own process: `python -m benchmarks.peers.fill MODULE ITEMS`."""

import importlib
import sys
from typing import Final

_PROSE: Final = "the printer on the third floor does not answer since monday please have a look at it "
_BODY: Final = (_PROSE * 13)[:1024]


def main(module: str, items: int) -> int:
    """Let `module` send `items` bodies of 1 KiB; ends when all are confirmed."""
    importlib.import_module(module).fill([_BODY] * items)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
