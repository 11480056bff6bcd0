"""A worker's life after the fork: take an order, run it, say how it went, until the pipe ends.

One thread of its own, one run at a time, nothing kept from one run to the next.
"""

import asyncio
import contextlib
import os
import socket
from dataclasses import dataclass

from msgspec.structs import replace

from consumer.pipe import Finished, Order, Ready
from consumer.worker import stacks
from consumer.worker.goodbye import say_goodbye
from consumer.worker.hunting import Hunt
from consumer.worker.line import Pipe, RunLine
from consumer.worker.loading import Handler
from consumer.worker.peak import Peak
from consumer.worker.printed import write_out
from consumer.worker.reading import Reader
from consumer.worker.runner import awaited, prepare, run_to_end
from consumer.worker.used import used_here
from consumer.worker.walls import Walls


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """What a fresh worker is born with."""

    channel: socket.socket
    stack: int
    """Descriptor of the file for its stacks."""
    handler: Handler
    reader: Reader
    hunt: int = 0
    """Runs between two snapshots of its memory; 0: none."""


def serve(seat: Seat) -> None:
    """Serve orders until the pipe ends, then call the exit hooks; a handler's `SystemExit` passes through."""
    born = os.getpid()
    pipe = Pipe(seat.channel)
    walls, peak = Walls(), Peak()
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        asyncio.set_event_loop(loop)
        stacks.on_request(seat.stack, loop)
        hunt = Hunt(seat.hunt) if seat.hunt else None
        pipe.say(Ready(resets_peak=peak.reset()))
        while (order := pipe.next_order()) is not None:
            peak.reset()
            walls.build(order)
            finished = _run(seat, order, pipe, loop)
            write_out()
            if os.getpid() != born:
                os._exit(0)  # a copy that the handler has forked and let return: its parent speaks for the run
            pipe.say(replace(finished, disturbed=stacks.were_written(seat.stack), usage=used_here()))
            if finished.last:
                break
            del order, finished  # nothing of a ticket stays while the worker waits for the next
            if hunt is not None and (grown := hunt.ran()) is not None:
                pipe.say(grown)
        say_goodbye(lambda hook: loop.run_until_complete(awaited(hook)))


def _run(seat: Seat, order: Order, pipe: Pipe, loop: asyncio.AbstractEventLoop) -> Finished:
    match prepare(order, seat.reader, RunLine(pipe, order.run), pipe.say):
        case Finished() as refusal:
            return refusal
        case run:
            finished = run_to_end(seat.handler, run, order.run, loop)
            return finished if _swept(loop) else replace(finished, last=True)


def _swept(loop: asyncio.AbstractEventLoop) -> bool:
    """End what a handler left running on the loop: the next ticket must not share its worker with the last one's.

    False when something refuses to end within a second; then the worker must.
    """
    left = asyncio.all_tasks(loop)
    if not left:
        return True
    for task in left:
        task.cancel()
    _, alive = loop.run_until_complete(asyncio.wait(left, timeout=1))
    return not alive
