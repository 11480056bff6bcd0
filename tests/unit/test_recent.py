"""What one process of a door has just accepted, every process of it finds, and nobody finds what is not there."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gateway.recent import SHARED, Recent, SharedMemory

PLACES = 3


def _crowd(places: int = PLACES) -> list[Recent]:
    shared = SharedMemory(places)
    return [Recent(shared, place) for place in range(places)]


def _accept(process: Recent, *tickets: str) -> None:
    for ticket in tickets:
        process.remember(ticket, "kind", "acme", f"digest of {ticket}", at=1.5)


def _knows(process: Recent, ticket: str) -> bool:
    found = process.recall(ticket)
    if found is not None:
        assert (found[0].ticket, found[0].client, found[1]) == (ticket, "acme", f"digest of {ticket}")
    return found is not None


def test_every_process_knows_the_newest_of_every_other() -> None:
    crowd = _crowd()
    newest: Sequence[list[str]] = [[f"{place}-{number}" for number in range(SHARED + 100)] for place in range(PLACES)]
    for process, tickets in zip(crowd, newest, strict=True):
        _accept(process, *tickets)

    for asked in crowd:
        for process, tickets in zip(crowd, newest, strict=True):
            assert all(_knows(asked, ticket) for ticket in tickets[-SHARED:])
            assert asked is process or not any(_knows(asked, ticket) for ticket in tickets[:100])


def test_who_takes_the_place_of_a_dead_process_leaves_its_tickets_where_others_find_them() -> None:
    shared = SharedMemory(2)
    other, dead = Recent(shared, 0), Recent(shared, 1)
    _accept(dead, *(f"dead-{number}" for number in range(SHARED)))

    successor = Recent(shared, 1)
    _accept(successor, *(f"new-{number}" for number in range(100)))

    assert all(_knows(other, f"new-{number}") for number in range(100))
    assert all(_knows(other, f"dead-{number}") for number in range(100, SHARED))


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=130), max_size=30, unique=True), st.text(max_size=130))
def test_only_what_was_accepted_is_known_whatever_it_is_called(tickets: list[str], other: str) -> None:
    one, another = _crowd(2)
    _accept(one, *tickets)

    for ticket in {*tickets, other}:
        assert _knows(another, ticket) <= (ticket in tickets)
        assert _knows(one, ticket) is (ticket in tickets)
