"""A dependency of a fleet goes down and comes back: who calls it when? By the breaker of each node, and the ladder.

Items come in evenly at random, and whichever node is free takes one, as on one queue.
"""

import heapq
import random
from dataclasses import dataclass, field
from typing import Final

from benchmarks.on_paper.waves import in_ladder
from consumer.breaker import Breaker, Rules, State
from consumer.policy import Policy
from consumer.verdict import backoff
from gateway.contract.topology import Topology

_RUN_SECONDS: Final = 0.5
_NAME: Final = "k"
_FLOOR: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """When the dependency was called, in seconds from its going down."""

    before: list[float]
    """By nodes whose breakers had not opened yet."""
    probes: list[float]
    after: list[float]
    """From its return on, whoever called."""
    waiting: int
    """Items that had not got through when the clock stopped."""


@dataclass(slots=True)
class _Fleet:
    chance: random.Random
    breakers: list[Breaker]
    down_for: float
    until: float
    waits: dict[str, int] = field(default_factory=dict)
    due: list[tuple[float, int, str, int | None, bool]] = field(default_factory=list)
    """Moment, order, item, and at a run's end its node and whether it is the probe."""
    order: int = 0
    before: list[float] = field(default_factory=list)
    probes: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    topology: Topology = field(default_factory=Topology)
    policy: Policy = field(default_factory=Policy)

    def push(self, at: float, item: str, node: int | None = None, *, probe: bool = False) -> None:
        self.order += 1
        heapq.heappush(self.due, (at, self.order, item, node, probe))

    def arrive(self, now: float, item: str) -> None:
        node = self.chance.randrange(len(self.breakers))
        breaker = self.breakers[node]
        if not breaker.may_start(fit=True, now=now):
            self.delay(now, item, breaker.hold(fit=True, now=now, jitter=self.chance.random()))
            return
        probe = breaker.start()
        if now >= self.down_for:
            self.after.append(now)
        elif probe:
            self.probes.append(now)
        else:
            self.before.append(now)
        self.push(now + _RUN_SECONDS, item, node, probe=probe)

    def end(self, now: float, item: str, node: int, *, probe: bool) -> None:
        breaker = self.breakers[node]
        if now - _RUN_SECONDS >= self.down_for:
            breaker.succeed(item, now=now, probe=probe)
            self.waits.pop(item, None)
            return
        breaker.say_down(item, _NAME, after=0.0, now=now, jitter=self.chance.random(), probe=probe)
        if breaker.state is State.CLOSED:
            self.waits[item] = self.waits.get(item, 0) + 1
            wait = max(_FLOOR, backoff(self.waits[item], self.policy, self.chance.random()))
        else:
            wait = breaker.hold(fit=True, now=now, jitter=self.chance.random(), said_so=True)
        self.delay(now, item, wait)

    def delay(self, now: float, item: str, seconds: float) -> None:
        self.push(now + in_ladder(self.topology, seconds), item)


def calls(nodes: int, *, seed: int, rate: float, down_for: float, until: float) -> Calls:
    """Return who calls a dependency that is down for `down_for` seconds while `rate` items a second need it."""
    chance = random.Random(seed)
    fleet = _Fleet(chance=chance, breakers=[Breaker(Rules()) for _ in range(nodes)], down_for=down_for, until=until)
    at, number = 0.0, 0
    while (at := at + chance.expovariate(rate)) < until:
        number += 1
        fleet.push(at, f"item-{number}")
    while fleet.due and fleet.due[0][0] < until:
        now, _, item, node, probe = heapq.heappop(fleet.due)
        if node is None:
            fleet.arrive(now, item)
        else:
            fleet.end(now, item, node, probe=probe)
    return Calls(before=fleet.before, probes=fleet.probes, after=fleet.after, waiting=len(fleet.due))
