"""Watches a queue run empty: the rate and the processor time between two depths, start-up and tail left out.

The same eye for the product and for its peers: what is ready in the queue, asked of the broker.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import aio_pika

from benchmarks.house import House
from benchmarks.programs import Program
from benchmarks.waiting import INTERVAL, BenchmarkFailed
from gateway.contract.topology import Topology

_FROM: Final = 0.9
_TO: Final = 0.05
_WITHIN: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """What happened between the two depths."""

    rate: float
    """Items a second."""
    us: float
    """Processor microseconds of the programs and their children, an item."""
    broker_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen at one moment."""

    at: float
    cpu: float
    broker: float
    ready: int


async def slope(look: Callable[[], Awaitable[Look]], items: int, begin: Callable[[], None] | None = None) -> Slope:
    """Look on until `items` are nearly gone; raises BenchmarkFailed or TimeoutError."""
    async with asyncio.timeout(_WITHIN):
        full = first = await look()
        if begin is not None:
            begin()
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


async def _watch(
    house: House, programs: Sequence[Program], queue: str, items: int, *, left: int, begin: Callable[[], None] | None
) -> Slope:
    async with await aio_pika.connect(house.broker.url) as connection, connection.channel() as channel:

        async def look() -> Look:
            ready = (await channel.declare_queue(queue, passive=True)).declaration_result.message_count or 0
            for program in programs:
                if program.ended:
                    raise BenchmarkFailed(f"it ended with {ready} items to go:\n{program.tail()}")
            cpu = sum(program.cpu_seconds() for program in programs)
            return Look(at=time.monotonic(), cpu=cpu, broker=house.broker_cpu_seconds(), ready=ready - left)

        return await slope(look, items, begin)


def drain(
    house: House,
    programs: Program | Sequence[Program],
    queue: str,
    items: int,
    *,
    left: int = 0,
    begin: Callable[[], None] | None = None,
) -> Slope:
    """Return the slope of programs taking `items` from `queue`, which holds as many, and `left` that stay.

    `begin` lets programs go that were held back so far. Raises BenchmarkFailed or TimeoutError.
    """
    together = [programs] if isinstance(programs, Program) else programs
    return asyncio.run(_watch(house, together, queue, items, left=left, begin=begin))


def none_was_turned_away(house: House, topology: Topology) -> None:
    """Raise BenchmarkFailed where items are in quarantine that should have run: that has a price of its own."""
    if (held := ready(house, topology.quarantine_queue)) > 0:
        raise BenchmarkFailed(f"{held} items went to quarantine instead of running")


def ready(house: House, queue: str) -> int:
    """Return how many messages wait in a queue; raises what aio-pika raises when it is not there."""

    async def ask() -> int:
        async with await aio_pika.connect(house.broker.url) as connection, connection.channel() as channel:
            return (await channel.declare_queue(queue, passive=True)).declaration_result.message_count or 0

    return asyncio.run(ask())
