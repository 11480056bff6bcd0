"""What does it cost to take responsibility for one ticket at the door?

Full preflight and confirmed quorum publish, beside a bare aiohttp answer, a plain aiohttp + aio-pika publish and doors
of other frameworks, in turn. The client runs in a process of its own on the same cores; so does the broker.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks import client
from benchmarks.house import House
from benchmarks.peers import running
from benchmarks.peers.registry import Peer
from benchmarks.programs import Program
from benchmarks.scale import Scale
from gateway.embedded import free_port

_16_KIB: Final = 16 * 1024
_SHARE_OF_MAXIMUM: Final = 0.7
_WARM_UP: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One closed-loop run against one door."""

    rate: float
    us: float
    """Processor microseconds of the door, a request."""
    broker_us: float
    client_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """A door under test, ours or a peer's."""

    program: Program
    port: int


def measure(scale: Scale, peers: Sequence[Peer] = ()) -> dict[str, Any]:
    """Run bare, plain, peers and ours in turn, ours with 16 KiB, and at 70 % of its rate, open loop; medians."""
    bare, plain, ours, large, p99, p50 = [], [], [], [], [], []
    theirs: dict[str, list[Leg]] = {peer.name: [] for peer in peers}
    with House(LAZARETTO_MAX_QUEUED="10000000") as house:
        product = Door(program=house.door(), port=house.door_port)
        answering, publishing = _peer(house, "--bare"), _peer(house, "--broker", house.broker.url)
        others = {peer.name: _other(house, peer) for peer in peers}
        for door in (product, answering, publishing, *others.values()):
            client.send(door.port, _WARM_UP)
        for _ in range(scale.pairs):
            bare.append(_closed(house, answering, scale.requests))
            plain.append(_closed(house, publishing, scale.requests))
            for name, door in others.items():
                theirs[name].append(_closed(house, door, scale.requests))
            ours.append(_closed(house, product, scale.requests))
            large.append(_closed(house, product, scale.requests, _16_KIB))
            paced = client.send(product.port, scale.requests, rate=ours[-1].rate * _SHARE_OF_MAXIMUM)
            p99.append(paced.p99_ms)
            p50.append(paced.p50_ms)
    named = {"ours": ours, "ours_16k": large, "aiohttp + aio-pika": plain, "aiohttp, bare": bare, **theirs}
    return {
        "us_per_request": _median(leg.us for leg in ours),
        "plain_us_per_request": _median(leg.us for leg in plain),
        "rate_ratio_to_plain": _ratio(ours, plain),
        "rate_ratio_to_bare": _ratio(ours, bare),
        "us_per_request_16k": _median(leg.us for leg in large),
        "p99_ms": _median(p99),
        "p50_ms": _median(p50),
        "peers": {
            "aiohttp + aio-pika": _median(leg.us for leg in plain),
            "aiohttp, bare": _median(leg.us for leg in bare),
            **{name: _median(leg.us for leg in legs) for name, legs in theirs.items()},
        },
        "requests_per_s": {name: _median(leg.rate for leg in legs) for name, legs in named.items()},
        "broker_us_per_request": {name: _median(leg.broker_us for leg in legs) for name, legs in named.items()},
        "client_us_per_request": {name: _median(leg.client_us for leg in legs) for name, legs in named.items()},
        "requests": scale.requests,
    }


def _peer(house: House, *arguments: str) -> Door:
    port = free_port()
    door = Door(program=house.start("benchmarks.peers.door", "--port", str(port), *arguments), port=port)
    house.until_ready(door.program, port)
    return door


def _other(house: House, peer: Peer) -> Door:
    port = free_port()
    door = Door(program=running.start(house, peer, f"peer-{peer.name}", str(port)), port=port)
    house.until_ready(door.program, port)
    return door


def _closed(house: House, door: Door, requests: int, size: int = 1024) -> Leg:
    cpu, broker = door.program.cpu_seconds(), house.broker_cpu_seconds()
    report = client.send(door.port, requests, size=size)
    return Leg(
        rate=report.rate,
        us=(door.program.cpu_seconds() - cpu) / requests * 1e6,
        broker_us=(house.broker_cpu_seconds() - broker) / requests * 1e6,
        client_us=report.client_us,
    )


def _median(figures: Iterable[float]) -> float:
    return round(statistics.median(figures), 1)


def _ratio(legs: list[Leg], others: list[Leg]) -> float:
    return round(statistics.median(leg.rate / other.rate for leg, other in zip(legs, others, strict=True)), 3)
