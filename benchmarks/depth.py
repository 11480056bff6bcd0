"""Watches a queue run empty: the rate and the processor time between two depths, start-up and tail left out.

The same eye for the product and for its peers: what is ready in the queue, asked of the broker.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Final

import aio_pika

from benchmarks.house import House
from benchmarks.programs import Program
from benchmarks.waiting import INTERVAL, BenchmarkFailed

_FROM: Final = 0.9
_TO: Final = 0.05
_WITHIN: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """What happened between the two depths."""

    rate: float
    """Items a second."""
    us: float
    """Processor microseconds of the program and its children, an item."""
    broker_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What was seen at one moment."""

    at: float
    cpu: float
    broker: float
    ready: int


async def _watch(house: House, program: Program, queue: str, items: int) -> Slope:
    connection = await aio_pika.connect(house.broker.url)
    async with connection, connection.channel() as channel, asyncio.timeout(_WITHIN):

        async def look() -> _Look:
            ready = (await channel.declare_queue(queue, passive=True)).declaration_result.message_count or 0
            if program.ended:
                raise BenchmarkFailed(f"it ended with {ready} items to go:\n{program.tail()}")
            return _Look(at=time.monotonic(), cpu=program.cpu_seconds(), broker=house.broker_cpu_seconds(), ready=ready)

        full = first = await look()
        while first.ready > items * _FROM:
            full = first
            await asyncio.sleep(INTERVAL)
            first = await look()
        if first.ready <= items * _TO:
            first = full  # so few that they were gone between two looks: a little of the start is in the figures
        last = await look()
        while last.ready > items * _TO:
            await asyncio.sleep(INTERVAL)
            last = await look()
    done = first.ready - last.ready
    if done <= 0:
        raise BenchmarkFailed(f"the queue was never seen with {items} items")
    return Slope(
        rate=done / (last.at - first.at),
        us=(last.cpu - first.cpu) / done * 1e6,
        broker_us=(last.broker - first.broker) / done * 1e6,
    )


def drain(house: House, program: Program, queue: str, items: int) -> Slope:
    """Return the slope of `program` emptying `queue`, which holds `items`; raises BenchmarkFailed or TimeoutError."""
    return asyncio.run(_watch(house, program, queue, items))
