"""Fills a peer's queue with its own library, in its own process: `python -m benchmarks.peers.fill MODULE ITEMS`."""

import importlib
import sys
from typing import Final

_PROSE: Final = "the printer on the third floor does not answer since monday please have a look at it "
_BODY: Final = (_PROSE * 13)[:1024]


def main(module: str, items: int, storm: str = "") -> int:
    """Let `module` send `items` of 1 KiB, or with `storm` a killer and `items` names; ends when all are confirmed."""
    names = ["killer", *map(str, range(items))]
    importlib.import_module(module).fill([f"{storm}-item-{name}" for name in names] if storm else [_BODY] * items)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
