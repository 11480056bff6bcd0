"""What cannot be explained is a mismatch; what may be on its way is none."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.station.agreement import Depths, Look, Mismatch, Suspects, compare

NONE = Suspects()
SOME = Suspects(number=3, tickets=("a", "b", "c"))
EMPTY = Depths(quarantine=0, journal=0, on_their_way=0)
CALM = Look(
    at=100.0, unkept=NONE, untold=NONE, unseen=NONE, unconfirmed=NONE, orphaned=NONE, kept_at=None, depths=EMPTY
)


@pytest.mark.parametrize(
    ("name", "mismatch"),
    [
        ("unkept", Mismatch.MISSING_ITEM),
        ("untold", Mismatch.MISSING_JOURNAL),
        ("unseen", Mismatch.MISSING_REPLAY),
        ("unconfirmed", Mismatch.UNCONFIRMED_REPLAY),
        ("orphaned", Mismatch.DEAD_RUN),
    ],
)
def test_each_oddity_is_told_with_its_number_and_its_first_tickets(name: str, mismatch: Mismatch) -> None:
    [finding] = compare(replace(CALM, **{name: SOME}), None)  # type: ignore[arg-type]
    assert (finding.mismatch, finding.number, finding.tickets) == (mismatch, 3, ("a", "b", "c"))
    assert finding.sentence.startswith("3 tickets: ")


def test_what_waits_in_a_queue_explains_as_many_as_it_holds() -> None:
    odd = replace(CALM, unkept=SOME, unseen=SOME)
    found = compare(replace(odd, depths=Depths(quarantine=1, journal=0, on_their_way=2)), None)
    assert [(finding.mismatch, finding.number) for finding in found] == [
        (Mismatch.MISSING_ITEM, 2),
        (Mismatch.MISSING_REPLAY, 1),
    ]


def test_a_journal_that_waits_to_be_read_may_explain_all_that_it_would_tell() -> None:
    odd = replace(CALM, untold=SOME, unseen=SOME, orphaned=SOME)
    assert compare(replace(odd, depths=replace(EMPTY, journal=1)), None) == []
    assert len(compare(odd, None)) == 3


def test_a_queue_is_stalled_when_it_held_items_twice_and_none_was_stored_between() -> None:
    full = replace(EMPTY, quarantine=7)
    before, now = replace(CALM, depths=full, at=100.0), replace(CALM, depths=full, at=160.0, kept_at=99.0)
    assert [(finding.mismatch, finding.number) for finding in compare(now, before)] == [(Mismatch.STALLED_QUEUE, 7)]
    assert compare(now, None) == []
    assert compare(replace(now, kept_at=101.0), before) == []
    assert compare(now, replace(before, depths=EMPTY)) == []
    assert compare(now, replace(before, depths=None)) == []


_NUMBERS = st.integers(0, 20)
_SUSPECTS = st.builds(Suspects, number=_NUMBERS)
_LOOKS = st.builds(
    Look,
    at=st.just(100.0),
    unkept=_SUSPECTS,
    untold=_SUSPECTS,
    unseen=_SUSPECTS,
    unconfirmed=_SUSPECTS,
    orphaned=_SUSPECTS,
    kept_at=st.none() | st.floats(0, 200),
    depths=st.none() | st.builds(Depths, quarantine=_NUMBERS, journal=_NUMBERS, on_their_way=_NUMBERS),
)


@given(look=_LOOKS, before=st.none() | _LOOKS)
def test_only_what_was_counted_is_told_and_a_blind_look_tells_of_the_store_alone(look: Look, before: Look) -> None:
    found = compare(look, before)
    assert len({finding.mismatch for finding in found}) == len(found)
    assert all(finding.number > 0 for finding in found)
    if look.depths is None:
        assert {finding.mismatch for finding in found} <= {Mismatch.UNCONFIRMED_REPLAY}
