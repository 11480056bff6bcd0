"""What does the station's intake cost? Items into SQLite with their alerts, and journal events, each from a full queue.

Each leg goes from the moment at which a station, ready and held back, is let go before a full queue, to the moment at
which its own figures say that nothing is owed: all is stored, and every alert has gone out. Beside a bare aio-pika
consumer that acknowledges the same items and keeps nothing. The queues are filled as nodes do.
"""

import re
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Final

from benchmarks.depth import Slope, drain
from benchmarks.filling import fill
from benchmarks.house import House, text
from benchmarks.programs import Program
from benchmarks.scale import Scale
from benchmarks.waiting import INTERVAL, BenchmarkFailed
from gateway.contract import envelope as envelopes
from gateway.contract import journal
from gateway.contract.envelope import Envelope
from gateway.contract.history import History, RunRecord
from gateway.contract.ids import TicketId
from gateway.contract.journal import Event, EventName
from gateway.contract.outcomes import Outcome, Stamp
from gateway.contract.topology import Route, Topology
from gateway.contract.wire import Wire

EVENTS_PER_ITEM: Final = 2
"""Of an ordinary ticket in the fleet: started, finished."""
CHANNELS: Final = 2
"""That every station has: its log and the alert exchange."""
_ITEMS: Final = "lazaretto_quarantined_total"
_SENT: Final = 'lazaretto_alerts_total{.*result="sent".*}'
_EVENTS: Final = "lazaretto_journal_events_total"
_LOOKS: Final = 11
_WITHIN: Final = 300.0
_BODY: Final = b"x" * 1024
_PREFETCH: Final = 32


def measure(scale: Scale) -> dict[str, Any]:
    """Run bare, items and journal in turn; medians."""
    bare, items, events = [], [], []
    topology, numbers = Topology(prefix="tickets"), count()
    quarantine = topology.to_quarantine("k")
    with House() as house:
        _station(house).stop()  # has declared what is filled now
        for _ in range(scale.pairs):
            fill(house, quarantine, (_item(number) for number in islice(numbers, scale.kept)))
            consumed = ("--queue", topology.quarantine_queue, "--prefetch", str(_PREFETCH))
            peer = house.start("benchmarks.peers.consumer", "--broker", house.broker.url, *consumed)
            bare.append(_drained(house, peer, topology.quarantine_queue, scale.kept))
            wires = [_item(number) for number in islice(numbers, scale.kept)]
            items.append(_leg(house, quarantine, wires, {_ITEMS: scale.kept, _SENT: scale.kept * CHANNELS}))
            told = [event for number in islice(numbers, scale.kept) for event in _events(number)]
            batches = [Wire(body=body, message_id="j") for body in journal.encode(told)]
            events.append(_leg(house, topology.to_journal(), batches, {_EVENTS: len(told)}))
        kept = _station(house)
        rare = f"kept-{next(numbers) - 1}"
        looked = {
            "desk_page_ms": _look(house, "/items", "kept-"),
            "desk_search_ms": _look(house, f"/items?text={rare}", "/items"),
            "metrics_ms": _look(house, "/metrics", _ITEMS),
        }
        kept.stop()
    number_of_events = scale.kept * EVENTS_PER_ITEM
    return {
        "items_per_s": _median(scale.kept / leg.seconds for leg in items),
        "us_per_item": _median(leg.cpu / scale.kept * 1e6 for leg in items),
        "broker_us_per_item": _median(leg.broker / scale.kept * 1e6 for leg in items),
        "bare_us_per_item": _median(leg.us for leg in bare),
        "rate_ratio_to_bare": _median(
            scale.kept / leg.seconds / base.rate for leg, base in zip(items, bare, strict=True)
        ),
        "events_per_s": _median(number_of_events / leg.seconds for leg in events),
        "us_per_event": _median(leg.cpu / number_of_events * 1e6 for leg in events),
        "events_per_core_s": _median(number_of_events / leg.cpu for leg in events),
        **looked,
        "desk_items": scale.kept * scale.pairs,
        "items": scale.kept,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """What a station has used until nothing was owed, in seconds."""

    seconds: float
    cpu: float
    """Of the station, its thread for SQLite included; never 0, which is less than the kernel counts."""
    broker: float


def _leg(house: House, route: Route, wires: Iterable[Wire], owed: dict[str, int]) -> Leg:
    """Fill a queue before a station that is held back, let it go, and wait until its figures have grown by `owed`."""
    station = _station(house)
    try:
        before = _told(house, owed)
        station.hold()
        fill(house, route, wires)
        cpu, broker, begun = station.cpu_seconds(), house.broker_cpu_seconds(), time.monotonic()
        station.let_go()
        _until_told(lambda: _done(before, _told(house, owed), owed), station)
        seconds = time.monotonic() - begun
        used = max(station.cpu_seconds() - cpu, 0.01)
        return Leg(seconds=seconds, cpu=used, broker=house.broker_cpu_seconds() - broker)
    finally:
        station.stop()


def _until_told(done: Callable[[], float], station: Program) -> None:
    """Return when all is done; looks as often as halves what is left, since each look is work for who is measured."""
    begun = time.monotonic()
    while (share := done()) < 1:
        passed = time.monotonic() - begun
        if station.ended or passed > _WITHIN:
            raise BenchmarkFailed(f"after {passed:.0f} s, {share:.0%} was done:\n{station.tail()}")
        left = passed / share - passed if share else INTERVAL
        time.sleep(min(max(left / 2, INTERVAL), 2.0))


def _done(before: dict[str, float], now: dict[str, float], owed: dict[str, int]) -> float:
    """Return which share of what is owed there is, of that of which there is least."""
    return min((now[name] - before[name]) / number for name, number in owed.items())


def _told(house: House, names: Iterable[str]) -> dict[str, float]:
    """Return figures of the station, each the sum of what it has of all labels."""
    exposition = text(house.desk_port, "/metrics")
    return {
        name: sum(float(value) for value in re.findall(rf"^{name}.* (\S+)$", exposition, re.MULTILINE))
        for name in names
    }


def _look(house: House, path: str, shown: str) -> float:
    """Return the median of milliseconds until the desk has answered with what is to be `shown`."""
    found = []
    for _ in range(_LOOKS):
        begun = time.monotonic()
        if shown not in text(house.desk_port, path):
            raise BenchmarkFailed(f"{path} shows no {shown}")
        found.append((time.monotonic() - begun) * 1000)
    return round(statistics.median(found), 1)


def _item(number: int) -> Wire:
    ended = [
        RunRecord(
            attempt=attempt, outcome=Outcome.MEMORY, node="n", worker=1, started=time.time(), seconds=1.0, code="9"
        )
        for attempt in (1, 2, 3)
    ]
    return envelopes.encode(
        Envelope(
            ticket=TicketId(f"kept-{number}"),
            kind="k",
            body=_BODY,
            content_type="text/plain",
            attempt=3,
            crashes=3,
            history=History(tuple(ended)),
            reason="crashes_exhausted",
        )
    )


def _events(number: int) -> tuple[Event, Event]:
    about: dict[str, Any] = {
        "ticket": f"told-{number}",
        "kind": "k",
        "node": "n",
        "stamp": Stamp(generation=0, attempt=1, interruptions=0),
    }
    ended = {"outcome": "succeeded", "verdict": "ack", "started_at": time.time(), "seconds": 0.1, "worker": 1}
    return (
        Event(event=EventName.STARTED, at=time.time(), data={}, **about),
        Event(event=EventName.FINISHED, at=time.time(), data={**ended, "evidence": {"peak_rss": 1 << 20}}, **about),
    )


def _serve(house: House) -> Program:
    return house.start("gateway.station", "serve")


def _station(house: House) -> Program:
    program = _serve(house)
    house.until_ready(program, house.desk_port)
    return program


def _drained(house: House, program: Program, queue: str, messages: int) -> Slope:
    try:
        return drain(house, program, queue, messages)
    finally:
        program.stop()


def _median(figures: Iterable[float]) -> float:
    return round(statistics.median(figures), 2)
