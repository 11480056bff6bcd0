"""What do items cost that only lie there? The broker's memory and the cost of a claim, with empty queues and with full.

Half of them wait in the lane, half in the delay ladder, as after a long outage. Items are claimed from the head of the
lane while all the others stay where they are.
"""

import statistics
from collections.abc import Iterable
from typing import Any, Final

import psutil

from benchmarks.depth import Slope, drain, none_was_turned_away, ready
from benchmarks.filling import fill, tickets
from benchmarks.house import SHORTENED, House
from benchmarks.scale import Scale
from gateway.contract.topology import Lane, Topology

_SLOTS: Final = 32
_DELAY: Final = 2700.0
"""Seconds; none of them is over before the benchmark is."""
_DELAY_UNIT: Final = 0.05
_TOPOLOGY: Final = Topology(prefix="tickets", delay_unit=_DELAY_UNIT)
_QUEUE: Final = _TOPOLOGY.lane_queue(Lane.WORK)
_MIB: Final = 1 << 20


def measure(scale: Scale) -> dict[str, Any]:
    """Claim from an empty house and from a full one; costs are medians, memory is that of the broker's process."""
    assert SHORTENED["LAZARETTO_DELAY_UNIT"] == f"{_DELAY_UNIT * 1000:g}ms"  # noqa: S101  the ladder that nodes declare
    lane, empty, full = _TOPOLOGY.to_lane(Lane.WORK), [], []
    with House() as house:
        node = house.node()  # it declares what is filled then
        node.wait_for_log("consumer.consuming")
        node.stop()
        for pair in range(scale.pairs):
            fill(house, lane, tickets(f"alone-{pair}", scale.no_ops))
            empty.append(_claim(house, scale.no_ops))
        house.broker.ctl("purge_queue", _QUEUE)
        before = _resident(house)
        fill(house, _TOPOLOGY.to_delay(Lane.WORK, _DELAY), tickets("delayed", scale.parked // 2))
        fill(house, lane, tickets("waiting", scale.parked - scale.parked // 2))
        parked, there = _resident(house), _depths(house)
        for pair in range(scale.pairs):
            fill(house, lane, tickets(f"beside-{pair}", scale.no_ops))
            full.append(_claim(house, scale.no_ops))
        after = _resident(house)
    return {
        "parked": sum(there.values()),
        "broker_mib_empty": before,
        "broker_mib_full": parked,
        "broker_mib_after_claims": after,
        "broker_bytes_per_item": round((parked - before) * _MIB / scale.parked),
        "claim_us_empty": _median(leg.us for leg in empty),
        "claim_us_full": _median(leg.us for leg in full),
        "claim_us_ratio": _ratio([leg.us for leg in full], [leg.us for leg in empty]),
        "claim_rate_ratio": _ratio([leg.rate for leg in full], [leg.rate for leg in empty]),
        "broker_us_per_claim": {
            "empty": _median(leg.broker_us for leg in empty),
            "full": _median(leg.broker_us for leg in full),
        },
        "depths": there,
        "items": scale.no_ops,
    }


def _claim(house: House, items: int) -> Slope:
    left = ready(house, _QUEUE) - items
    node = house.node(handler="handle_nothing_inline", workers=_SLOTS, inline=True)
    try:
        slope = drain(house, node, _QUEUE, items, left=left)
        none_was_turned_away(house, _TOPOLOGY)
        return slope
    finally:
        node.stop()


def _depths(house: House) -> dict[str, int]:
    """Messages by queue, of those in which items wait and that are not empty: asked of each, since lists lag behind."""
    names = (queue.name for queue in _TOPOLOGY.queues() if queue.name.startswith((_QUEUE, "tickets.delay.")))
    found = {name: ready(house, name) for name in names}
    return {name: count for name, count in found.items() if count}


def _resident(house: House) -> float:
    return round(psutil.Process(house.broker.pids["server"]).memory_info().rss / _MIB, 1)


def _median(figures: Iterable[float]) -> float:
    return round(statistics.median(figures), 1)


def _ratio(ours: list[float], base: list[float]) -> float:
    return round(statistics.median(mine / max(other, 1e-3) for mine, other in zip(ours, base, strict=True)), 3)
