"""What a group shares and others do not is named; what everybody has, or chance explains, is not."""

from dataclasses import replace
from fractions import Fraction
from math import comb
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.station import correlation
from gateway.station.correlation import Facts, Trait

_KIB = 1024
_USUAL = Facts(kind="support.ticket", client="globex", charset="utf-8", build="b1", bytes=4 * _KIB)
_FACTS = st.builds(
    Facts,
    kind=st.none() | st.sampled_from(["a", "b"]),
    client=st.none() | st.sampled_from(["acme", "globex", "initech"]),
    charset=st.none() | st.sampled_from(["utf-8", "utf-16le", "latin-1"]),
    build=st.none() | st.sampled_from(["b1", "b2"]),
    bytes=st.none() | st.sampled_from([0, 10, 5000, 400 * _KIB, 20_000 * _KIB]),
)
_MANY = st.lists(_FACTS, max_size=40)


def _named(group: list[Facts], others: list[Facts]) -> list[Trait]:
    return [one.trait for one in correlation.find(group, others)]


def test_eight_of_nine_are_told_in_one_sentence() -> None:
    sick = replace(_USUAL, client="acme", charset="utf-16le", bytes=350 * _KIB)
    others = [_USUAL] * 790 + [replace(_USUAL, client="acme")] * 6 + [sick] * 4
    group = [sick] * 8 + [_USUAL]
    found = correlation.portray(group, others, correlation.find(group, others))
    assert found is not None
    assert found.sentence == "8 of 9 are over 300 KiB, UTF-16LE and from client acme; 4 of 800 others"


def test_one_trait_is_told_with_the_share_of_others() -> None:
    group, others = [replace(_USUAL, build="b2")] * 5, [_USUAL] * 40
    (one,) = correlation.find(group, others)
    assert one.sentence == "5 of 5 are run by build b2; 0 of 40 others"
    assert correlation.portray(group, others, [one]) is not None


def test_two_items_are_a_coincidence() -> None:
    assert _named([replace(_USUAL, client="acme")] * 2, [_USUAL] * 500) == []


def test_without_others_nothing_can_be_said() -> None:
    assert _named([_USUAL] * 9, []) == []
    assert _named([_USUAL] * 9, [Facts()] * 100) == []
    assert correlation.portray([_USUAL] * 9, [], []) is None


def test_of_several_bounds_on_the_size_the_greatest_that_tells_is_named() -> None:
    group, others = [replace(_USUAL, bytes=2048 * _KIB)] * 6, [replace(_USUAL, bytes=200 * _KIB)] * 60
    assert _named(group, others) == [Trait(name="bytes", value=1024 * _KIB)]


def test_empty_is_a_size() -> None:
    group = [replace(_USUAL, bytes=0)] * 6
    assert [trait.words for trait in _named(group, [_USUAL] * 60)] == ["empty"]


@given(_FACTS, _MANY, _MANY)
def test_what_everybody_has_is_never_named(facts: Facts, group: list[Facts], others: list[Facts]) -> None:
    same = [replace(one, client=facts.client, bytes=facts.bytes) for one in others]
    named = _named([replace(one, client=facts.client, bytes=facts.bytes) for one in group], same)
    assert not {trait.name for trait in named} & {"client", "bytes"}


@given(_MANY, _MANY)
def test_what_is_named_is_most_of_the_group_and_rarer_elsewhere(group: list[Facts], others: list[Facts]) -> None:
    found = correlation.find(group, others)
    for one in found:
        assert correlation.LEAST <= one.has <= one.of == len(group)
        assert one.has == sum(map(one.trait.of, group))
        assert one.others_have == sum(map(one.trait.of, others)) <= one.others_of <= len(others)
        assert one.has * one.others_of >= 2 * one.others_have * one.of
        assert one.chance <= correlation.MOST_CHANCE
    told = correlation.portray(group, others, found)
    assert (told is None) == (found == [])
    if told is not None:
        assert correlation.LEAST <= told.has <= min(one.has for one in found if one.trait in told.traits)
        assert len({trait.name for trait in told.traits}) == len(told.traits)


@given(_MANY, _MANY, st.randoms(use_true_random=False))
def test_the_order_of_items_makes_no_difference(group: list[Facts], others: list[Facts], random: Random) -> None:
    shuffled, mixed = list(group), list(others)
    random.shuffle(shuffled)
    random.shuffle(mixed)
    assert correlation.find(group, others) == correlation.find(shuffled, mixed)


@given(_MANY, _MANY, _FACTS)
def test_another_one_outside_that_has_it_never_makes_a_trait_likelier_to_be_named(
    group: list[Facts], others: list[Facts], more: Facts
) -> None:
    before, after = (set(map(_key, _named(group, some))) for some in (others, [*others, more]))
    assert {key for key in after - before if Trait(name=key[0], value=key[1]).of(more)} == set()


def _key(trait: Trait) -> tuple[str, str | int]:
    return trait.name, trait.value


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 30), st.integers(0, 30))
def test_chance_is_what_counting_all_ways_says(has: int, lacking: int, others_have: int, others_lack: int) -> None:
    of, total, having = has + lacking, has + lacking + others_have + others_lack, has + others_have
    ways = sum(comb(having, k) * comb(total - having, of - k) for k in range(has, min(of, having) + 1))
    counted = correlation.chance(has=has, of=of, others_have=others_have, others_of=others_have + others_lack)
    assert counted == pytest.approx(float(Fraction(ways, comb(total, of))), rel=1e-9)


@given(st.text(max_size=20))
def test_whatever_a_client_is_called_can_be_told(name: str) -> None:
    group = [replace(_USUAL, client=name or "x")] * 5
    assert all(isinstance(one.sentence, str) for one in correlation.find(group, [_USUAL] * 50))
