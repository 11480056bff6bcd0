"""Ten repetitions of the soak; `make soak` does two hundred."""

from collections.abc import Iterator

import pytest

from gateway.embedded import EmbeddedBroker
from tests.faults.soak import Soak, installation


@pytest.fixture(scope="module")
def soak(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Soak]:
    with installation(broker.url, tmp_path_factory.mktemp("soak")) as soak:
        yield soak


@pytest.mark.parametrize("seed", range(10))
def test_killer_is_started_three_times_and_only_a_workers_own_item_pays_whatever_dies(soak: Soak, seed: int) -> None:
    seen = soak.repeat(f"soak-{seed}", seed)
    assert not seen.faults, (seen.accidents, seen.killer_outcomes)
