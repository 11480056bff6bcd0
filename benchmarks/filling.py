"""Fills a queue with what programs of the product would have published, each confirmed; and makes such tickets.

For queues that a door does not fill, or not as full as this.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice
from typing import Final

from benchmarks.house import House
from benchmarks.load import bodies_of
from gateway.contract import envelope as envelopes
from gateway.contract.envelope import Admission, Envelope
from gateway.contract.ids import TicketId
from gateway.contract.topology import Route
from gateway.contract.wire import Wire
from gateway.station.sender import Sender

_AT_ONCE: Final = 200
_KIND: Final = "benchmark"
"""That of all bodies of a load."""


def fill(house: House, route: Route, wires: Iterable[Wire]) -> None:
    """Publish everything to `route`; returns when all of it is confirmed."""

    async def publish() -> None:
        sender, left = Sender((house.broker.url,)), iter(wires)
        while some := list(islice(left, _AT_ONCE)):
            await asyncio.gather(*(sender.send(route, wire, mandatory=True) for wire in some))
        await sender.close()

    asyncio.run(publish())


def tickets(name: str, count: int, *, kinds: Sequence[str] = (_KIND,), size: int = 1024) -> Iterator[Wire]:
    """Yield new tickets of about `size` bytes as a door publishes them, of `kinds` in turn, named after `name`."""
    for number, (one, kind) in enumerate(islice(zip(cycle(bodies_of(size)), cycle(kinds)), count)):
        body = one.replace(f'"{_KIND}"'.encode(), f'"{kind}"'.encode(), 1)  # one that says otherwise is turned away
        measured = Admission(
            bytes=len(body),
            charset="utf-8",
            tokens=size // 4,
            exact=False,
            attachments=0,
            client="anonymous",
            admitted_at=time.time(),
        )
        yield envelopes.encode(
            Envelope(
                ticket=TicketId(f"{name}-{number}"),
                kind=kind,
                body=body,
                content_type="application/json",
                admission=measured,
            )
        )
