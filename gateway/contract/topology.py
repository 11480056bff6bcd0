"""Every exchange, queue and binding, as data, and the arithmetic of the delay ladder.

Owns names and arguments. Declares nothing itself: gateway and consumer each do that on their own connection.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

DELIVERY_LIMIT: Final = 50
"""Backstop for what kills even the supervisor (C18)."""
NEVER: Final = 2**31 - 1
"""A delivery limit that never bites; -1 would mean zero on RabbitMQ 3.10."""
CONSUMER_DISCONNECTED_MS: Final = 5000
"""RabbitMQ 4.3 returns what a dead node held only after 60 s without it; older brokers keep it unread."""
LEVELS: Final = 17
SIGNIFICANT_BITS: Final = 6
"""A delay takes at most this many hops; full jitter loses nothing by it."""
MAX_DELAY_SECONDS: Final = 24 * 3600.0


class Lane(StrEnum):
    """Where an item waits to be run."""

    WORK = "work"
    SUSPECTS = "suspects"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A durable exchange to declare."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A durable quorum queue to declare."""

    name: str
    arguments: dict[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A binding of a queue, or of an exchange when `to_exchange`, to `source`."""

    source: str
    destination: str
    key: str
    to_exchange: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where to publish: exchange and routing key."""

    exchange: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """All names under one prefix; `delay_unit` is the shortest delay in seconds."""

    prefix: str = "tickets"
    delay_unit: float = 1.0

    @property
    def journal_queue(self) -> str:
        """The queue of run events, for the station."""
        return f"{self.prefix}.journal"

    @property
    def quarantine_queue(self) -> str:
        """The queue of exhausted items, for the station."""
        return f"{self.prefix}.quarantine"

    @property
    def alerts_exchange(self) -> str:
        """The topic exchange that anyone may bind to hear alerts."""
        return f"{self.prefix}.alerts"

    def lane_queue(self, lane: Lane) -> str:
        """Return the queue that a lane's consumers read."""
        return f"{self.prefix}.{lane}"

    def to_lane(self, lane: Lane) -> Route:
        """Route an item to be run as soon as a slot is free."""
        return Route(exchange=self.prefix, key=lane)

    def to_quarantine(self, kind: str) -> Route:
        """Route an exhausted item to the station."""
        return Route(exchange=f"{self.prefix}.quarantine", key=kind)

    def to_journal(self) -> Route:
        """Route a batch of run events to the station."""
        return Route(exchange="", key=self.journal_queue)

    def to_alerts(self, event: str) -> Route:
        """Route an alert to whoever has bound the exchange; nobody has to."""
        return Route(exchange=self.alerts_exchange, key=event)

    def to_delay(self, lane: Lane, seconds: float) -> Route:
        """Route an item into the delay ladder, to arrive in `lane` after at least `seconds` (capped at 24 h).

        The delay is rounded up, to the unit and then to six significant bits, never down: it may be a provider's
        Retry-After. A delay of nothing goes straight to the lane.
        """
        units = _rounded_units(min(max(seconds, 0.0), MAX_DELAY_SECONDS) / self.delay_unit)
        if units == 0:
            return self.to_lane(lane)
        highest = units.bit_length() - 1
        bits = ".".join(str(units >> level & 1) for level in reversed(range(LEVELS)))
        return Route(exchange=self._level(highest), key=f"{bits}.{lane}")

    def exchanges(self) -> tuple[Exchange, ...]:
        """Return every exchange, in an order that can be declared."""
        return (
            Exchange(name=self.prefix, type="direct"),
            Exchange(name=f"{self.prefix}.quarantine", type="topic"),
            Exchange(name=self.alerts_exchange, type="topic"),
            Exchange(name=self._arrival, type="topic"),
            *(Exchange(name=self._level(level), type="topic") for level in range(LEVELS)),
        )

    def queues(self) -> tuple[Queue, ...]:
        """Return every queue with the arguments that it must have."""
        at_least_once: dict[str, str | int] = {
            "x-queue-type": "quorum",
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
        }
        lane = {
            **at_least_once,
            "x-delivery-limit": DELIVERY_LIMIT,
            "x-dead-letter-exchange": f"{self.prefix}.quarantine",
            "x-consumer-disconnected-timeout": CONSUMER_DISCONNECTED_MS,
        }
        station: dict[str, str | int] = {
            "x-queue-type": "quorum",
            "x-delivery-limit": NEVER,
            "x-consumer-disconnected-timeout": CONSUMER_DISCONNECTED_MS,
        }
        return (
            Queue(name=self.quarantine_queue, arguments=station),
            Queue(name=self.journal_queue, arguments=station),
            *(Queue(name=self.lane_queue(name), arguments=lane) for name in Lane),
            *(
                Queue(
                    name=self._level(level),
                    arguments={
                        **at_least_once,
                        "x-message-ttl": self._level_ms(level),
                        "x-dead-letter-exchange": self._level(level - 1) if level else self._arrival,
                    },
                )
                for level in range(LEVELS)
            ),
        )

    def bindings(self) -> tuple[Binding, ...]:
        """Return every binding; on each rung a 1 waits in the rung's queue and a 0 goes on to the next."""
        found = [
            Binding(source=f"{self.prefix}.quarantine", destination=self.quarantine_queue, key="#"),
        ]
        for lane in Lane:
            found.append(Binding(source=self.prefix, destination=self.lane_queue(lane), key=lane))
            found.append(Binding(source=self._arrival, destination=self.lane_queue(lane), key=f"#.{lane}"))
        for level in range(LEVELS):
            passed = "*." * (LEVELS - 1 - level)
            below = self._level(level - 1) if level else self._arrival
            found.append(Binding(source=self._level(level), destination=self._level(level), key=f"{passed}1.#"))
            found.append(Binding(source=self._level(level), destination=below, key=f"{passed}0.#", to_exchange=True))
        return tuple(found)

    @property
    def _arrival(self) -> str:
        return f"{self.prefix}.delay.arrival"

    def _level(self, level: int) -> str:
        return f"{self.prefix}.delay.{level:02}"

    def _level_ms(self, level: int) -> int:
        return round(self.delay_unit * 1000) << level


def _rounded_units(exact: float) -> int:
    units = math.ceil(exact - 1e-9)
    if units <= 0:
        return 0
    spare = max(0, units.bit_length() - SIGNIFICANT_BITS)
    units = -(-units >> spare) << spare
    return min(units, (1 << LEVELS) - 1)
