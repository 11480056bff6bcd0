"""What does it cost to take responsibility for one ticket at the door?

Full preflight and confirmed quorum publish, beside a bare aiohttp answer, a plain aiohttp + aio-pika publish, doors of
other frameworks and a publisher in C, in turn. The client runs in a process of its own on the same cores; so does the
broker.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks import client, wrk
from benchmarks.house import House
from benchmarks.latency import Latencies, merged
from benchmarks.limit import ceiling
from benchmarks.load import bodies_of
from benchmarks.peers import running
from benchmarks.peers.registry import Peer
from benchmarks.programs import Program
from benchmarks.scale import Scale
from gateway.embedded import free_port

OURS: Final = "ours"
PLAIN: Final = "aiohttp + aio-pika"
BARE: Final = "aiohttp, bare"
_LARGE: Final = "ours_16k"
_PLAIN_LARGE: Final = "plain_16k"
_16_KIB: Final = 16 * 1024
_SHARE_OF_MAXIMUM: Final = 0.7
_WARM_UP: Final = 50
_LIMIT: Final = "limit"


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
    """Run bare, plain, peers and ours in turn, two with 16 KiB, ours at 70 % of its rate, open loop; medians."""
    closed: defaultdict[str, list[Leg]] = defaultdict(list)
    by_wrk: defaultdict[str, list[Leg]] = defaultdict(list)
    at_limit: defaultdict[str, list[ceiling.Ceiling]] = defaultdict(list)
    paced: list[client.Report] = []
    confirms: list[Latencies] = []
    missing = ceiling.why_missing()
    with House(LAZARETTO_MAX_QUEUED="10000000") as house:
        product = Door(program=house.door(), port=house.door_port)
        doors = {BARE: _peer(house, "--bare"), PLAIN: _peer(house, "--broker", house.broker.url)}
        doors |= {peer.name: _other(house, peer) for peer in peers} | {OURS: product}
        limit = None if missing else ceiling.Limit(house)
        for door in doors.values():
            client.send(door.port, _WARM_UP)
        for _ in range(scale.pairs):
            for name, door in doors.items():
                closed[name].append(_closed(house, door, scale.requests))
            closed[_PLAIN_LARGE].append(_closed(house, doors[PLAIN], scale.requests, _16_KIB))
            closed[_LARGE].append(_closed(house, product, scale.requests, _16_KIB))
            pace = closed[OURS][-1].rate * _SHARE_OF_MAXIMUM
            paced.append(client.send(product.port, scale.requests, rate=pace))
            if limit is not None:
                for window in ceiling.WINDOWS:
                    at_limit[str(window)].append(limit.publish(_LIMIT, scale.requests, window=window))
                confirms.append(limit.publish(_LIMIT, scale.requests, window=scale.requests, rate=pace).latencies)
            if wrk.is_installed():
                for name, door in doors.items():
                    by_wrk[name].append(_by_wrk(house, door, scale.wrk_s))
    latencies = merged(report.latencies for report in paced)
    return {
        "us_per_request": _median(leg.us for leg in closed[OURS]),
        "plain_us_per_request": _median(leg.us for leg in closed[PLAIN]),
        "rate_ratio_to_plain": _ratio(closed[OURS], closed[PLAIN]),
        "rate_ratio_to_bare": _ratio(closed[OURS], closed[BARE]),
        "us_per_request_16k": _median(leg.us for leg in closed[_LARGE]),
        "plain_us_per_request_16k": _median(leg.us for leg in closed[_PLAIN_LARGE]),
        "rate_ratio_to_plain_16k": _ratio(closed[_LARGE], closed[_PLAIN_LARGE]),
        "p99_ms": latencies.ms(99),
        "latency_ms": latencies.percentiles(),
        "client_late_p99_ms": round(max(report.late_p99_ms for report in paced), 3),
        "peers": {
            name: figure for name, figure in _each(closed, "us").items() if name not in {OURS, _LARGE, _PLAIN_LARGE}
        },
        "requests_per_s": _each(closed, "rate"),
        "broker_us_per_request": _each(closed, "broker_us"),
        "client_us_per_request": _each(closed, "client_us"),
        **_limits(missing, at_limit, merged(confirms), latencies),
        "wrk": {
            "requests_per_s": _each(by_wrk, "rate"),
            "us_per_request": _each(by_wrk, "us"),
            "client_us_per_request": _each(by_wrk, "client_us"),
        }
        if by_wrk
        else "wrk is not installed",
        "requests": scale.requests,
    }


def _limits(
    missing: str | None, found: Mapping[str, list[ceiling.Ceiling]], confirms: Latencies, latencies: Latencies
) -> dict[str, Any]:
    if missing:
        return {"broker_limit": missing}
    return {
        **ceiling.told(found),
        "broker_limit_confirm_ms": confirms.percentiles(),
        "p99_ratio_to_confirm": round(latencies.ms(99) / confirms.ms(99), 2),
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
        us=(door.program.cpu_seconds() - cpu) / report.sent * 1e6,
        broker_us=(house.broker_cpu_seconds() - broker) / report.sent * 1e6,
        client_us=report.client_us,
    )


def _by_wrk(house: House, door: Door, seconds: int) -> Leg:
    bodies = wrk.write_bodies(house.folder / "bodies", bodies_of(1024))
    cpu, broker = door.program.cpu_seconds(), house.broker_cpu_seconds()
    report = wrk.send(door.port, seconds, client.CONNECTIONS, bodies)
    return Leg(
        rate=report.rate,
        us=(door.program.cpu_seconds() - cpu) / report.requests * 1e6,
        broker_us=(house.broker_cpu_seconds() - broker) / report.requests * 1e6,
        client_us=report.client_us,
    )


def _each(legs: Mapping[str, list[Leg]], figure: str) -> dict[str, float]:
    return {name: _median(getattr(leg, figure) for leg in found) for name, found in legs.items()}


def _median(figures: Iterable[float]) -> float:
    return round(statistics.median(figures), 1)


def _ratio(legs: list[Leg], others: list[Leg]) -> float:
    return round(statistics.median(leg.rate / other.rate for leg, other in zip(legs, others, strict=True)), 3)
