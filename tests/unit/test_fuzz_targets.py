"""The claims that a fuzzer searches to break hold for its seeds, and for what is near them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.seeds import SEEDS
from tests.fuzz.targets import TARGETS


def test_every_target_has_seeds() -> None:
    assert SEEDS.keys() == TARGETS.keys()
    assert all(SEEDS.values())


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_the_claims_hold_for_the_seeds(name: str) -> None:
    for seed in SEEDS[name]:
        TARGETS[name](seed)


@pytest.mark.parametrize("name", sorted(TARGETS))
@settings(max_examples=150)
@given(data=st.data())
def test_the_claims_hold_near_the_seeds(name: str, data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(SEEDS[name]))
    for _ in range(data.draw(st.integers(1, 4))):
        at, size = data.draw(st.integers(0, len(seed))), data.draw(st.integers(0, 3))
        seed = seed[:at] + data.draw(st.binary(max_size=4) | st.sampled_from([seed, b"\0" * 99])) + seed[at + size :]
    TARGETS[name](seed[:8192].ljust(2, b"\0"))
