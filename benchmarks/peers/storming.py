"""One killer at the head of a peer's queue, good items behind it, for a set time: who ran how often, by own notes.

Does what an orchestrator does: starts a peer that has ended again. Ends nothing early: a killer that cycles, cycles.
"""

import time
from collections import Counter
from collections.abc import Iterable
from typing import Final

from benchmarks.house import House
from benchmarks.peers import running
from benchmarks.peers.registry import Peer
from benchmarks.waiting import BenchmarkFailed, until

_STARTS_WITHIN: Final = 60.0


def run(house: House, peer: Peer, good: int, seconds: float) -> dict[str, int]:
    """Return counts after `seconds` from the first start of any item; raises BenchmarkFailed when none starts."""
    queue = name = f"storm-{peer.name}"
    running.fill(house, peer, queue, good, storm=name)
    program = running.start(house, peer, queue)
    restarts = 0

    def noted() -> list[tuple[str, str]]:
        return [(note.what, note.ticket) for note in house.notes() if note.ticket.startswith(f"{name}-item-")]

    def over() -> bool:
        nonlocal program, restarts
        if program.ended:
            program, restarts = running.start(house, peer, queue), restarts + 1
        return time.monotonic() >= over_at

    try:
        until(lambda: bool(noted()) or program.ended, _STARTS_WITHIN, f"{peer.name} starts an item")
        if program.ended and not noted():
            raise BenchmarkFailed(f"{peer.name} ended before it started an item:\n{program.tail()}")
        over_at = time.monotonic() + seconds
        until(over, seconds + _STARTS_WITHIN, f"{seconds:g} s are over")
    finally:
        program.kill()
    return {**tally(noted(), f"{name}-item-killer"), "good_total": good, "started_again": restarts}


def tally(noted: Iterable[tuple[str, str]], killer: str) -> dict[str, int]:
    """Count what was noted, as pairs of start or end and an item's name."""
    counts = Counter(noted)
    twice = [item for (what, item), count in counts.items() if what == "start" and count > 1 and item != killer]
    return {
        "killer_starts": counts["start", killer],
        "good_done": sum(what == "end" for what, _ in counts),
        "good_run_twice": len(twice),
    }
