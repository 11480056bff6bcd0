"""Addresses of lists: what is written is read again, and nothing in one is ever an error."""

import math
from urllib.parse import parse_qsl

from hypothesis import given
from hypothesis import strategies as st

from gateway.contract.outcomes import Outcome
from gateway.station.catalogue import Mark
from gateway.station.desk import address
from gateway.station.desk.address import AGES, STATES, Address

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40).map(str.strip)
marks = st.builds(
    Mark,
    at=st.floats(allow_nan=False, allow_infinity=False),
    ticket=texts.filter(bool),
    generation=st.integers(0, 2**31),
)
addresses = st.builds(
    Address,
    state=st.sampled_from(sorted(STATES)),
    age=st.sampled_from(sorted(AGES)),
    newest_first=st.booleans(),
    texts=st.fixed_dictionaries(
        {},
        optional={
            "text": texts.filter(bool),
            "client": texts.filter(bool),
            "reason": texts.filter(bool),
            "kind": st.just("support.ticket"),
            "outcome": st.sampled_from(Outcome).map(str),
            "signal": st.integers(0, 99).map(str),
            "owner": texts.filter(bool),
            "group": texts.filter(bool),
            "review": st.sampled_from(["overdue", "on_hold", "unreviewed"]),
        },
    ),
)


def _parsed(query: str) -> dict[str, str]:
    return dict(parse_qsl(query))


@given(asked=addresses, place=marks)
def test_an_address_that_was_written_reads_the_same(asked: Address, place: Mark) -> None:
    assert address.read(_parsed(asked.query())) == asked
    found = address.read(_parsed(asked.at(after=place)))
    assert found.after == place
    assert found.query() == asked.query()


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "state",
                "kind",
                "reason",
                "outcome",
                "signal",
                "text",
                "age",
                "order",
                "after",
                "before",
                "owner",
                "review",
            ]
        ),
        st.text(max_size=300),
    )
)
def test_whatever_stands_in_an_address_is_a_selection(query: dict[str, str]) -> None:
    asked = address.read(query)
    selection = asked.selection(1_800_000_000.0)
    assert selection.states == STATES[asked.state]
    assert selection.signal is None or 0 <= selection.signal < 1000
    for place in (asked.after, asked.before):
        assert place is None or (math.isfinite(place.at) and 0 <= place.generation < 2**63)


def test_an_age_is_told_from_now() -> None:
    assert address.read({"age": ">1d"}).selection(100_000.0).until == 100_000.0 - 86_400
    assert address.read({"age": "<1h"}).selection(100_000.0).since == 100_000.0 - 3_600
    assert not address.read({"state": "held"}).narrowed
    assert address.read({"age": "<1h"}).narrowed


def test_another_order_begins_anew() -> None:
    asked = address.read({"order": "newest", "after": "1.5~0~t", "kind": "k"})
    assert asked.ordered(newest_first=False) == Address(texts={"kind": "k"})
