"""Ten repetitions of the soak; `make soak` does two hundred."""

import signal
from collections.abc import Iterator

import pytest

from gateway.embedded import EmbeddedBroker
from tests.faults.soak import Repetition, Soak, installation
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def soak(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Soak]:
    with installation(broker.url, tmp_path_factory.mktemp("soak")) as soak:
        yield soak


@pytest.mark.parametrize("seed", range(10))
def test_killer_is_started_three_times_and_only_a_workers_own_item_pays_whatever_dies(soak: Soak, seed: int) -> None:
    seen = soak.repeat(f"soak-{seed}", seed)
    assert not seen.faults, (seen.accidents, seen.killer_outcomes)


def test_a_killer_whose_worker_is_killed_before_it_has_begun_pays_for_that_and_the_soak_knows_why(soak: Soak) -> None:
    workers = soak.workers()
    for worker in workers:
        worker.send_signal(signal.SIGSTOP)
    killer = soak.house.accepted("killer", "killed-before-it-began")
    eventually(lambda: soak.busy() == 1, saying="a worker has its order")
    for worker in workers:
        worker.kill()
    soak.house.until(killer, "quarantined", 60.0)

    seen = Repetition(killed={worker.pid for worker in workers})
    soak.judge(killer, [], seen)
    assert (seen.killer_starts, seen.killer_outcomes, seen.faults) == (2, ["crashed"] * 3, [])
    unseen = Repetition()
    soak.judge(killer, [], unseen)
    assert unseen.faults == ["the killer was charged for attempt 1, which nobody has started"]
