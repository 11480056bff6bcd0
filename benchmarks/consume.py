"""What does one item cost the fleet, when the handler does nothing? Inline, and with isolated worker processes.

Beside a bare aio-pika consumer on a quorum queue, the workers of other libraries and a consumer in C, in turn. The
queue is filled first, through a door or by the library itself; then one consumer empties it. The station is left out:
it shares the cores, not the cost of an item in the consumer.
"""

import contextlib
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import psutil

from benchmarks import client
from benchmarks.depth import Slope, drain, none_was_turned_away
from benchmarks.house import House
from benchmarks.limit import ceiling
from benchmarks.peers import on_redis, running
from benchmarks.peers.registry import BULLMQ, Peer
from benchmarks.programs import workers
from benchmarks.scale import Scale
from benchmarks.waiting import until
from gateway.contract.topology import Lane, Topology
from gateway.embedded import free_port

PREFETCH: Final = 32
"""Unacknowledged items of the inline node and of the bare consumer."""
WORKERS: Final = 2
_TOPOLOGY: Final = Topology(prefix="tickets")
_PEER: Final = "peer"
_LIMIT: Final = "limit"
_WITHIN: Final = 60.0


def measure(scale: Scale, peers: Sequence[Peer] = ()) -> dict[str, Any]:
    """Run bare, inline, isolated and peers in turn; medians."""
    bare, inline, isolated, unfenced = [], [], [], []
    theirs: dict[str, list[Slope]] = {peer.name: [] for peer in peers}
    at_limit: defaultdict[str, list[ceiling.Ceiling]] = defaultdict(list)
    missing = ceiling.why_missing()
    with House() as house, contextlib.ExitStack() as others:
        house.door()
        redis = others.enter_context(on_redis.redis(house)) if BULLMQ in peers else None
        limit = None if missing else ceiling.Limit(house)
        peer_port = free_port()
        peer_door = house.start("benchmarks.peers.door", "--port", str(peer_port), "--broker", house.broker.url)
        house.until_ready(peer_door, peer_port)
        for turn in range(scale.pairs):
            client.fill(peer_port, scale.no_ops)
            bare.append(_bare(house, scale.no_ops))
            client.fill(house.door_port, scale.no_ops)
            inline.append(_fleet(house, scale.no_ops, inline=True))
            client.fill(house.door_port, scale.no_ops)
            unfenced.append(_fleet(house, scale.no_ops, inline=True, LAZARETTO_FENCE="off"))
            client.fill(house.door_port, scale.no_ops)
            isolated.append(_fleet(house, scale.no_ops, inline=False))
            if limit is not None:
                for window in ceiling.WINDOWS:
                    limit.publish(_LIMIT, scale.no_ops, window=max(ceiling.WINDOWS))
                    at_limit[str(window)].append(limit.consume(_LIMIT, scale.no_ops, prefetch=window))
            for peer in peers:
                queue = f"peer-{peer.name}-{turn}"
                if peer is BULLMQ and redis is not None:
                    theirs[peer.name].append(on_redis.drained(house, redis, queue, scale.no_ops))
                else:
                    theirs[peer.name].append(_other(house, peer, queue, scale.no_ops))
        idle = _idle_worker_mib(house)
    named = {"aio-pika": bare, "inline": inline, "inline, no fence": unfenced, "isolated": isolated, **theirs}
    return {
        "inline_us_per_item": _median(leg.us for leg in inline),
        "inline_unfenced_us_per_item": _median(leg.us for leg in unfenced),
        "isolated_us_per_item": _median(leg.us for leg in isolated),
        "peers": {name: _median(leg.us for leg in legs) for name, legs in {"aio-pika": bare, **theirs}.items()},
        "idle_worker_mib": idle,
        "inline_rate_ratio_to_bare": _ratio(inline, bare),
        "isolated_rate_ratio_to_bare": _ratio(isolated, bare),
        "isolated_rate_ratio_to_celery": _ratio(isolated, theirs["celery"]) if "celery" in theirs else None,
        "items_per_s": {name: _median(leg.rate for leg in legs) for name, legs in named.items()},
        "broker_us_per_item": {name: _median(leg.broker_us for leg in legs) for name, legs in named.items()},
        **({"broker_limit": missing} if missing else ceiling.told(at_limit)),
        "items": scale.no_ops,
    }


def _bare(house: House, items: int) -> Slope:
    consumer = house.start(
        "benchmarks.peers.consumer", "--broker", house.broker.url, "--queue", _PEER, "--prefetch", str(PREFETCH)
    )
    try:
        return drain(house, consumer, _PEER, items)
    finally:
        consumer.stop()


def _other(house: House, peer: Peer, queue: str, items: int) -> Slope:
    running.fill(house, peer, queue, items)
    consumer = running.start(house, peer, queue)
    try:
        return drain(house, consumer, queue, items)
    finally:
        consumer.kill()  # how long a library takes to end (Celery half a minute) is nobody's question here


def _fleet(house: House, items: int, *, inline: bool, **env: str) -> Slope:
    handler, workers = ("handle_nothing_inline", PREFETCH) if inline else ("handle_nothing", WORKERS)
    node = house.node(Lane.WORK, handler=handler, workers=workers, inline=inline, **env)
    try:
        slope = drain(house, node, _TOPOLOGY.lane_queue(Lane.WORK), items)
        none_was_turned_away(house, _TOPOLOGY)
        return slope
    finally:
        node.stop()


def _idle_worker_mib(house: House) -> float:
    """Return what a worker that waits shares with no other process, its mold included."""
    node = house.node(handler="handle_nothing", workers=WORKERS)
    try:
        node.wait_for_log("consumer.consuming")
        until(lambda: len(workers(node.pid)) == WORKERS, _WITHIN, "every worker is there")
        private = [psutil.Process(pid).memory_full_info().uss for pid in workers(node.pid)]
    finally:
        node.stop()
    return round(statistics.median(private) / (1 << 20), 1)


def _median(figures: Iterable[float]) -> float:
    return round(statistics.median(figures), 1)


def _ratio(legs: list[Slope], bare: list[Slope]) -> float:
    return round(statistics.median(leg.rate / base.rate for leg, base in zip(legs, bare, strict=True)), 3)
