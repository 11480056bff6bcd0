"""Notices a session that is connected and receives nothing, although messages wait, and has it started over (D10).

Owns the patience. Holds nothing against a queue that is empty, a node that has something to do, or one that has stopped
claiming by itself; where starting over does not help it waits longer each time, since others may be served first.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Final

from consumer import metrics
from consumer.depth import Sounding
from consumer.intake import Intake
from consumer.session import Session
from gateway.contract.logs import event
from gateway.contract.topology import Lane

log = logging.getLogger("consumer.watchdog")

_LOOK_SECONDS: Final = 5.0
_LOOKS: Final = 6
"""How often it looks, at least, before it has lost its patience."""
_LONGEST_PATIENCE: Final = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What can be seen of a session in one moment."""

    at: float
    """Seconds on any clock."""
    waiting: int | None
    """Messages that are ready in the queue; None when the broker has not said."""
    is_open: bool
    """Whether this node asks for deliveries."""
    in_flight: int
    """Deliveries that are here and not yet acknowledged."""
    arrived: int
    """Deliveries since the session began."""


class Silence:
    """How long nothing has arrived although it should. Pure."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._arrived = 0

    def lasts(self, sight: Sight) -> float:
        """Take one more look and return the seconds for which every look has found messages waiting in vain."""
        is_vain = sight.is_open and bool(sight.waiting) and sight.in_flight == 0 and sight.arrived == self._arrived
        self._arrived = sight.arrived
        if not is_vain:
            self._since = None
            return 0.0
        if self._since is None:
            self._since = sight.at
        return sight.at - self._since


class Watchdog:
    """Watches one session after the other; `patience` in seconds, 0 never loses it."""

    def __init__(self, lane: Lane, *, patience: float) -> None:
        self._lane = lane
        self._patience = patience
        self._in_vain = 0
        self.waiting: int | None = None
        """Messages that were ready in the lane at the last look."""
        self.barks = False
        """True from the end of a silent session until something arrives or nothing waits any more."""

    async def watch(self, session: Session, intake: Intake, queue: str) -> None:
        """Look until the session is over, and end it when it is silent."""
        silence, sounding = Silence(), Sounding(session, queue)
        patience = min(self._patience * 2.0**self._in_vain, max(self._patience, _LONGEST_PATIENCE))
        pause = min(_LOOK_SECONDS, patience / _LOOKS) if patience else _LOOK_SECONDS
        try:
            while not await session.ends_within(pause):
                depth = await sounding.depth(_LOOK_SECONDS)
                waiting = self.waiting = None if depth is None else depth.ready
                if waiting is not None:
                    metrics.LANE_WAITING.labels(self._lane).set(waiting)
                if intake.arrived or waiting == 0:
                    self._in_vain, self.barks = 0, False
                sight = Sight(
                    at=time.monotonic(),
                    waiting=waiting,
                    is_open=intake.is_open,
                    in_flight=intake.in_flight,
                    arrived=intake.arrived,
                )
                seconds = silence.lasts(sight)
                if patience and seconds >= patience:
                    self._bark(session, waiting or 0, seconds)
        except Exception:
            log.exception("the watchdog is gone; the session starts over")
            session.end("the watchdog failed")
        finally:
            await asyncio.shield(sounding.close())

    def _bark(self, session: Session, waiting: int, seconds: float) -> None:
        event(log, "watchdog.silence", logging.ERROR, waiting=waiting, seconds=round(seconds, 1))
        metrics.WATCHDOG_REBUILDS.inc()
        self._in_vain, self.barks = self._in_vain + 1, True
        session.end(f"nothing arrives although {waiting} messages are ready")
