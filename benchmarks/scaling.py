"""Does more come out of more? One and two processes of the door; one, two and four nodes of the fleet.

Beside a publisher and a consumer in C on the same broker, which is the ceiling of both. Nodes are measured twice: with
handlers that do nothing, where cores and broker are the limit, and with handlers that wait, where slots are. And one
node with a policy for one kind of ticket, and with one for each of a thousand.
"""

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final

from benchmarks import client
from benchmarks.depth import Slope, drain, none_was_turned_away
from benchmarks.filling import fill, tickets
from benchmarks.house import House
from benchmarks.limit import ceiling
from benchmarks.programs import Program
from benchmarks.scale import Scale
from gateway.contract.topology import Lane, Topology
from gateway.contract.wire import Wire

DOORS: Final = (1, 2)
KINDS: Final = (1, 1000)
_SLOTS: Final = 32
"""Of a node whose handlers do nothing."""
_WAITING_SLOTS: Final = 8
_LIMIT: Final = "limit"
_TOPOLOGY: Final = Topology(prefix="tickets")


def measure(scale: Scale) -> dict[str, Any]:
    """Run all numbers of processes and nodes in turn; medians."""
    doors: defaultdict[int, list[Slope]] = defaultdict(list)
    idle: defaultdict[int, list[Slope]] = defaultdict(list)
    waiting: defaultdict[int, list[Slope]] = defaultdict(list)
    kinds: defaultdict[int, list[Slope]] = defaultdict(list)
    published, consumed = [], []
    missing, legs = ceiling.why_missing(), count()
    with House(LAZARETTO_MAX_QUEUED="10000000") as house:
        limit = None if missing else ceiling.Limit(house)
        for _ in range(scale.pairs):
            for processes in DOORS:
                doors[processes].append(_doors(house, processes, scale.requests))
            house.broker.ctl("purge_queue", _TOPOLOGY.lane_queue(Lane.WORK))
            for nodes in scale.nodes:
                named = f"leg-{next(legs)}"
                idle[nodes].append(
                    _nodes(house, named, nodes, scale.spread, handler="handle_nothing_inline", slots=_SLOTS)
                )
            for nodes in scale.nodes:
                named, items = f"leg-{next(legs)}", scale.waiting * nodes
                waiting[nodes].append(
                    _nodes(house, named, nodes, items, handler="handle_waiting_inline", slots=_WAITING_SLOTS)
                )
            for number in KINDS:
                kinds[number].append(_kinds(house, f"leg-{next(legs)}", number, scale.spread))
            if limit is not None:
                window = max(ceiling.WINDOWS)
                published.append(limit.publish(_LIMIT, scale.spread, window=window).rate)
                consumed.append(limit.consume(_LIMIT, scale.spread, prefetch=window).rate)
    return {
        "door_requests_per_s": _each(doors, "rate"),
        "door_us_per_request": _each(doors, "us"),
        "door_ratio_2_to_1": _ratio(doors[2], doors[1]),
        "node_items_per_s": _each(idle, "rate"),
        "node_us_per_item": _each(idle, "us"),
        "node_ratio_most_to_1": _ratio(idle[max(scale.nodes)], idle[1]),
        "waiting_items_per_s": _each(waiting, "rate"),
        "waiting_ratio_most_to_1": _ratio(waiting[max(scale.nodes)], waiting[1]),
        "kinds_us_per_item": _each(kinds, "us"),
        "broker_us_per_item": _each(idle, "broker_us"),
        **({"broker_limit": missing} if missing else _shares(doors, idle, published, consumed)),
        "items": scale.spread,
        "requests": scale.requests,
    }


def _doors(house: House, processes: int, requests: int) -> Slope:
    door = house.start("gateway", "--workers", str(processes))
    try:
        house.until_ready(door, house.door_port)
        cpu, broker = door.cpu_seconds(), house.broker_cpu_seconds()
        report = client.send(house.door_port, requests)
        return Slope(
            rate=report.rate,
            us=(door.cpu_seconds() - cpu) / report.sent * 1e6,
            broker_us=(house.broker_cpu_seconds() - broker) / report.sent * 1e6,
        )
    finally:
        door.stop()


def _nodes(house: House, named: str, number: int, items: int, *, handler: str, slots: int) -> Slope:
    nodes = [house.node(handler=handler, workers=slots, inline=True) for _ in range(number)]
    return _drained(house, nodes, tickets(named, items), items)


def _kinds(house: House, named: str, number: int, items: int) -> Slope:
    """One node with a policy of its own for each kind, and tickets of all kinds in turn."""
    kinds = [f"kind-{each}" for each in range(number)]
    policies = json.dumps({kind: {"max_attempts": 3} for kind in kinds})
    node = house.node(handler="handle_nothing_inline", workers=_SLOTS, inline=True, LAZARETTO_KINDS=policies)
    return _drained(house, [node], tickets(named, items, kinds=kinds), items)


def _drained(house: House, nodes: Sequence[Program], wires: Iterable[Wire], items: int) -> Slope:
    """Have nodes that are ready wait until their queue is full, and begin in one moment."""
    try:
        for node in nodes:
            node.wait_for_log("consumer.consuming")
        for node in nodes:
            node.hold()
        fill(house, _TOPOLOGY.to_lane(Lane.WORK), wires)
        ready = items - len(nodes)  # each node has been handed its first
        slope = drain(house, nodes, _TOPOLOGY.lane_queue(Lane.WORK), ready, begin=lambda: _let_go(nodes))
        none_was_turned_away(house, _TOPOLOGY)
        return slope
    finally:
        _let_go(nodes)
        for node in nodes:
            node.terminate()
        for node in nodes:
            node.stop()


def _let_go(nodes: Sequence[Program]) -> None:
    for node in nodes:
        node.let_go()


def _shares(
    doors: Mapping[int, list[Slope]],
    nodes: Mapping[int, list[Slope]],
    published: Sequence[float],
    consumed: Sequence[float],
) -> dict[str, Any]:
    """How near to the ceiling the best of ours comes."""
    publish, consume = statistics.median(published), statistics.median(consumed)
    return {
        "broker_limit_publish_per_s": round(publish, 1),
        "broker_limit_consume_per_s": round(consume, 1),
        "door_share_of_limit": round(max(_each(doors, "rate").values()) / publish, 3),
        "node_share_of_limit": round(max(_each(nodes, "rate").values()) / consume, 3),
    }


def _each(legs: Mapping[int, list[Slope]], figure: str) -> dict[str, float]:
    return {
        str(size): round(statistics.median(getattr(leg, figure) for leg in found), 1) for size, found in legs.items()
    }


def _ratio(legs: Sequence[Slope], others: Sequence[Slope]) -> float:
    return round(statistics.median(leg.rate / other.rate for leg, other in zip(legs, others, strict=True)), 3)
