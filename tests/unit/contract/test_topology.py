"""The delay ladder's arithmetic and the arguments that protect what waits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contract.topology import LEVELS, MAX_DELAY_SECONDS, SIGNIFICANT_BITS, Lane, Route, Topology

topology = Topology()


def walk(route: Route, ladder: Topology) -> float:
    """Follow a message through the ladder by its bindings, as the broker does; return the seconds it waits."""
    if route.exchange == ladder.prefix:
        return 0.0
    *bits, lane = route.key.split(".")
    assert lane in set(Lane)
    first = int(route.exchange.rpartition(".")[2])
    taken = [level for level in range(first, -1, -1) if bits[LEVELS - 1 - level] == "1"]
    return ladder.delay_unit * sum(1 << level for level in taken)


@given(st.floats(0, 2 * MAX_DELAY_SECONDS))
def test_a_delay_is_rounded_up_never_down_and_by_little(seconds: float) -> None:
    waits = walk(topology.to_delay(Lane.WORK, seconds), topology)
    wanted = min(seconds, MAX_DELAY_SECONDS)
    assert wanted - 1e-6 <= waits <= wanted * (1 + 2 ** (1 - SIGNIFICANT_BITS)) + 1


@given(st.floats(0, MAX_DELAY_SECONDS))
def test_no_delay_takes_more_than_six_hops(seconds: float) -> None:
    *bits, _ = topology.to_delay(Lane.WORK, seconds).key.split(".")
    assert bits.count("1") <= SIGNIFICANT_BITS


def test_no_delay_goes_straight_to_the_lane() -> None:
    assert topology.to_delay(Lane.SUSPECTS, 0.0) == Route(exchange="tickets", key="suspects")


@pytest.mark.parametrize("queue", topology.queues(), ids=lambda queue: queue.name)
def test_no_queue_can_lose_what_it_holds(queue: object) -> None:
    arguments = queue.arguments  # type: ignore[attr-defined]
    assert arguments["x-queue-type"] == "quorum"
    assert "x-max-length" not in arguments
    if "x-dead-letter-exchange" in arguments:
        assert arguments["x-dead-letter-strategy"] == "at-least-once"
        assert arguments["x-overflow"] == "reject-publish"
    else:
        assert "x-message-ttl" not in arguments


def test_every_binding_joins_things_that_exist() -> None:
    exchanges = {exchange.name for exchange in topology.exchanges()}
    queues = {queue.name for queue in topology.queues()}
    for binding in topology.bindings():
        assert binding.source in exchanges
        assert binding.destination in (exchanges if binding.to_exchange else queues)
