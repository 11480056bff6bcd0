"""What does the broker's death cost? It is killed as a power failure would, and comes back, while tickets come in.

Door, station and both lanes run on; clients bring each ticket again until it is admitted, as the door asks of them.
Counts by the clients' own record of what was admitted, and the handlers' own of what they ran.
"""

import http.client
import itertools
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.house import House
from benchmarks.scale import Scale
from benchmarks.waiting import BenchmarkFailed, until
from gateway.contract.topology import Lane

_WITHIN: Final = 180.0
_WORKERS: Final = 2
_HANDS: Final = 4
_PAUSE: Final = 0.05
"""Seconds between two tickets of one hand: about as many as two workers run, so that some are always waiting."""
_AGAIN_AFTER: Final = 0.2
"""Seconds after which a refused ticket is brought again: sooner than the door asks, to see early that it is back."""
_UNANSWERED: Final = "unanswered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """One death of the broker, in Unix seconds."""

    killed: float
    served: float
    """When the broker itself was back."""
    admitted: float
    """When the first ticket was admitted since its death."""
    run: float
    """When the first of those tickets started."""


class _Clients:
    """Hands that bring tickets, each again until it is admitted."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._numbers = itertools.count()
        self._over = threading.Event()
        self.admitted: dict[str, float] = {}
        """When each ticket was, in Unix seconds."""
        self.refusals: Counter[str] = Counter()

    @contextmanager
    def bringing(self) -> Iterator[None]:
        """Bring tickets while the context lasts; what is under way at its end is still brought."""
        with ThreadPoolExecutor(_HANDS) as hands:
            working: list[Future[None]] = [hands.submit(self._work) for _ in range(_HANDS)]
            try:
                yield
            finally:
                self._over.set()
        for hand in working:
            hand.result()

    def first_after(self, moment: float) -> str | None:
        """Return the ticket that was admitted first after `moment`, if one was."""
        later = [(at, ticket) for ticket, at in self.admitted.copy().items() if at > moment]
        return min(later)[1] if later else None

    def _work(self) -> None:
        while not self._over.wait(_PAUSE):
            ticket, deadline = f"load-{next(self._numbers)}", time.monotonic() + _WITHIN
            while not self._is_admitted(ticket):
                if time.monotonic() > deadline:
                    raise BenchmarkFailed(f"{ticket} was not admitted within {_WITHIN:g} s")
                time.sleep(_AGAIN_AFTER)

    def _is_admitted(self, ticket: str) -> bool:
        try:
            status, _ = self._house.offer(ticket, "good")
        except (OSError, http.client.HTTPException):
            self.refusals[_UNANSWERED] += 1
            return False
        if status != http.client.ACCEPTED:
            self.refusals[str(status)] += 1
            return False
        self.admitted[ticket] = time.time()
        return True


def measure(scale: Scale) -> dict[str, Any]:
    """Kill the broker again and again under load; counts are sums, seconds are medians and the longest."""
    # A queue that was declared a moment ago loses what it has confirmed: here its settling time is no mere wait.
    with House(LAZARETTO_QUEUE_SETTLE="3s") as house:
        house.open()
        for lane in Lane:
            house.node(lane, workers=_WORKERS).wait_for_log("consumer.consuming")
        clients, outages = _Clients(house), []
        with clients.bringing():
            for _ in range(scale.outages):
                _wait_for_more(clients, scale.between_outages)
                outages.append(_outage(house, clients))
            _wait_for_more(clients, scale.between_outages)
        admitted = list(clients.admitted)
        until(lambda: house.ended() >= set(admitted), _WITHIN, "every admitted ticket has run")
        statuses = house.ends(admitted, _WITHIN)
        notes = house.notes()
    starts = Counter(note.ticket for note in notes if note.what == "start")
    charged = {note.ticket for note in notes if note.attempt > 1}
    charged |= {ticket for ticket, status in statuses.items() if status.get("attempts", 0) > 1}
    lengths = [outage.run - outage.killed for outage in outages]
    return {
        "accepted": len(admitted),
        "lost": sum(status.get("state") != "done" for status in statuses.values()),
        "run_twice": sum(starts[ticket] > 1 for ticket in admitted),
        "charged": len(charged),
        "outage_s": _median(lengths),
        "outage_s_max": round(max(lengths), 2),
        "broker_away_s": _median([outage.served - outage.killed for outage in outages]),
        "admitted_after_broker_s": _median([outage.admitted - outage.served for outage in outages]),
        "run_after_broker_s": _median([outage.run - outage.served for outage in outages]),
        "refusals": dict(clients.refusals),
        "outages": scale.outages,
    }


def _wait_for_more(clients: _Clients, count: int) -> None:
    wanted = len(clients.admitted) + count
    until(lambda: len(clients.admitted) >= wanted, _WITHIN, f"{count} tickets are admitted")


def _outage(house: House, clients: _Clients) -> Outage:
    house.broker.kill()
    killed = time.time()
    house.broker.start()
    served = time.time()
    until(lambda: clients.first_after(killed) is not None, _WITHIN, "the door admits again")
    since = {ticket for ticket, at in clients.admitted.copy().items() if at > killed}

    def started() -> float | None:
        return min((note.at for note in house.notes() if note.what == "start" and note.ticket in since), default=None)

    until(lambda: started() is not None, _WITHIN, "what was admitted since is run")
    return Outage(
        killed=killed,
        served=served,
        admitted=min(clients.admitted[ticket] for ticket in since),
        run=started() or served,
    )


def _median(seconds: list[float]) -> float:
    return round(statistics.median(seconds), 2)
