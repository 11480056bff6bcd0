"""What does the station's intake cost? Items into SQLite with their alerts, and journal events, each from a full queue.

Beside a bare aio-pika consumer that acknowledges the same items and keeps nothing. The queues are filled as nodes do.
"""

import asyncio
import statistics
import time
from collections.abc import Iterable
from itertools import count, islice
from typing import Any, Final

from benchmarks.depth import Slope, drain
from benchmarks.house import House
from benchmarks.programs import Program
from benchmarks.scale import Scale
from gateway.contract import envelope as envelopes
from gateway.contract import journal
from gateway.contract.envelope import Envelope
from gateway.contract.history import History, RunRecord
from gateway.contract.ids import TicketId
from gateway.contract.journal import Event, EventName
from gateway.contract.outcomes import Outcome, Stamp
from gateway.contract.topology import Route, Topology
from gateway.contract.wire import Wire
from gateway.station.sender import Sender

EVENTS_PER_ITEM: Final = 2
"""Of an ordinary ticket in the fleet: started, finished."""
_BODY: Final = b"x" * 1024
_AT_ONCE: Final = 200
_PREFETCH: Final = 32


def measure(scale: Scale) -> dict[str, Any]:
    """Run bare, items and journal in turn; medians."""
    bare, items, events = [], [], []
    topology, numbers = Topology(prefix="tickets"), count()
    quarantine = topology.to_quarantine("k")
    with House() as house:
        _station(house).stop()  # has declared what is filled now
        for _ in range(scale.pairs):
            _fill(house, quarantine, (_item(number) for number in islice(numbers, scale.kept)))
            consumed = ("--queue", topology.quarantine_queue, "--prefetch", str(_PREFETCH))
            peer = house.start("benchmarks.peers.consumer", "--broker", house.broker.url, *consumed)
            bare.append(_drained(house, peer, topology.quarantine_queue, scale.kept))
            _fill(house, quarantine, (_item(number) for number in islice(numbers, scale.kept)))
            items.append(_drained(house, _serve(house), topology.quarantine_queue, scale.kept))
            told = (event for number in islice(numbers, scale.kept) for event in _events(number))
            batches = [Wire(body=body, message_id="j") for body in journal.encode(told)]
            _fill(house, topology.to_journal(), batches)
            each = scale.kept * EVENTS_PER_ITEM / len(batches)
            events.append((_drained(house, _serve(house), topology.journal_queue, len(batches)), each))
    return {
        "items_per_s": _median(leg.rate for leg in items),
        "us_per_item": _median(leg.us for leg in items),
        "bare_us_per_item": _median(leg.us for leg in bare),
        "rate_ratio_to_bare": _median(leg.rate / base.rate for leg, base in zip(items, bare, strict=True)),
        "events_per_s": _median(leg.rate * each for leg, each in events),
        "us_per_event": _median(leg.us / each for leg, each in events),
        "events_per_core_s": _median(1e6 / max(leg.us / each, 1e-3) for leg, each in events),
        "items": scale.kept,
    }


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


def _fill(house: House, route: Route, wires: Iterable[Wire]) -> None:
    async def publish() -> None:
        sender, left = Sender((house.broker.url,)), iter(wires)
        while some := list(islice(left, _AT_ONCE)):
            await asyncio.gather(*(sender.send(route, wire, mandatory=True) for wire in some))
        await sender.close()

    asyncio.run(publish())


def _drained(house: House, program: Program, queue: str, messages: int) -> Slope:
    try:
        return drain(house, program, queue, messages)
    finally:
        program.stop()


def _median(figures: Iterable[float]) -> float:
    return round(statistics.median(figures), 2)
