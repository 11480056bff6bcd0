"""What does one item cost the fleet, when the handler does nothing? Inline, and with isolated worker processes.

Beside a bare aio-pika consumer on a quorum queue and the workers of other libraries, in turn. The queue is filled
first, through a door or by the library itself; then one consumer empties it. The station is left out: it shares the
cores, not the cost of an item in the consumer.
"""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any, Final

from benchmarks import client
from benchmarks.depth import Slope, drain
from benchmarks.house import House
from benchmarks.peers import running
from benchmarks.peers.registry import Peer
from benchmarks.scale import Scale
from gateway.contract.topology import Lane
from gateway.embedded import free_port

PREFETCH: Final = 32
"""Unacknowledged items of the inline node and of the bare consumer."""
WORKERS: Final = 2
_WORK: Final = "tickets.work"
_PEER: Final = "peer"


def measure(scale: Scale, peers: Sequence[Peer] = ()) -> dict[str, Any]:
    """Run bare, inline, isolated and peers in turn; medians."""
    bare, inline, isolated, unfenced = [], [], [], []
    theirs: dict[str, list[Slope]] = {peer.name: [] for peer in peers}
    with House() as house:
        house.door()
        peer_port = free_port()
        peer_door = house.start("benchmarks.peers.door", "--port", str(peer_port), "--broker", house.broker.url)
        house.until_ready(peer_door, peer_port)
        for turn in range(scale.pairs):
            client.send(peer_port, scale.no_ops)
            bare.append(_bare(house, scale.no_ops))
            client.send(house.door_port, scale.no_ops)
            inline.append(_fleet(house, scale.no_ops, inline=True))
            client.send(house.door_port, scale.no_ops)
            unfenced.append(_fleet(house, scale.no_ops, inline=True, LAZARETTO_FENCE="off"))
            client.send(house.door_port, scale.no_ops)
            isolated.append(_fleet(house, scale.no_ops, inline=False))
            for peer in peers:
                theirs[peer.name].append(_other(house, peer, f"peer-{peer.name}-{turn}", scale.no_ops))
    named = {"aio-pika": bare, "inline": inline, "inline, no fence": unfenced, "isolated": isolated, **theirs}
    return {
        "inline_us_per_item": _median(leg.us for leg in inline),
        "inline_unfenced_us_per_item": _median(leg.us for leg in unfenced),
        "isolated_us_per_item": _median(leg.us for leg in isolated),
        "peers": {name: _median(leg.us for leg in legs) for name, legs in {"aio-pika": bare, **theirs}.items()},
        "inline_rate_ratio_to_bare": _ratio(inline, bare),
        "isolated_rate_ratio_to_bare": _ratio(isolated, bare),
        "isolated_rate_ratio_to_celery": _ratio(isolated, theirs["celery"]) if "celery" in theirs else None,
        "items_per_s": {name: _median(leg.rate for leg in legs) for name, legs in named.items()},
        "broker_us_per_item": {name: _median(leg.broker_us for leg in legs) for name, legs in named.items()},
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
        return drain(house, node, _WORK, items)
    finally:
        node.stop()


def _median(figures: Iterable[float]) -> float:
    return round(statistics.median(figures), 1)


def _ratio(legs: list[Slope], bare: list[Slope]) -> float:
    return round(statistics.median(leg.rate / base.rate for leg, base in zip(legs, bare, strict=True)), 3)
