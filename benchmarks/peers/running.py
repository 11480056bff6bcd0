"""Starts peers in a benchmark's house and fills their queues. Measures nothing: that is done as for the product."""

import subprocess
from typing import Final

from benchmarks.house import House
from benchmarks.peers import environment
from benchmarks.peers.registry import Peer
from benchmarks.programs import ROOT, Program
from benchmarks.waiting import BenchmarkFailed

_FILLS_WITHIN: Final = 300.0


def start(house: House, peer: Peer, queue: str, *arguments: str) -> Program:
    """Start a peer on `queue` without waiting for it; `arguments` end its command."""
    return house.start(*peer.command, *arguments, python=str(environment.python()), **_env(house, peer, queue))


def fill(house: House, peer: Peer, queue: str, items: int, *, storm: str = "") -> None:
    """Put `items` of 1 KiB into a peer's `queue`, as its own library sends them; raises BenchmarkFailed.

    With `storm` a killer comes first, and the items are names that begin so.
    """
    done = subprocess.run(
        [
            str(environment.python()),
            "-m",
            "benchmarks.peers.fill",
            peer.module,
            str(items),
            *([storm] if storm else []),
        ],
        cwd=ROOT,
        env=_env(house, peer, queue),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_FILLS_WITHIN,
        check=False,
    )
    if done.returncode:
        raise BenchmarkFailed(f"{peer.name} could not be given its items: {done.stderr.strip()[-2000:]}")


def _env(house: House, peer: Peer, queue: str) -> dict[str, str]:
    return {"PEER_BROKER": house.broker.url, "PEER_QUEUE": queue, **peer.env}
