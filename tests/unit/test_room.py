"""What is declared takes no room, what is unfinished never all of it, and what left gives back what it held."""

from contextlib import ExitStack

from gateway.room import Room


def test_unfinished_bodies_leave_half_of_the_room_to_whole_ones() -> None:
    room = Room(1000)
    with ExitStack() as stack:
        stalled = [stack.enter_context(room.place()) for _ in range(20)]
        assert [place.hold(100, whole=False) for place in stalled] == [True] * 5 + [False] * 15
        others = [stack.enter_context(room.place()) for _ in range(6)]
        assert [place.hold(100, whole=True) for place in others] == [True] * 5 + [False]
        assert room.taken == 1000


def test_a_body_that_has_become_whole_no_longer_counts_as_unfinished() -> None:
    room = Room(1000)
    with room.place() as first, room.place() as second:
        assert first.hold(500, whole=False)
        assert not second.hold(1, whole=False)
        assert first.hold(500, whole=True)
        assert second.hold(500, whole=False)


async def test_who_leaves_gives_everything_back() -> None:
    room = Room(1000)
    with room.place() as place:
        place.hold(10, whole=False)
        place.hold(300, whole=False)
        assert (room.requests, room.taken) == (1, 300)
    await room.emptied()
    assert (room.requests, room.taken) == (0, 0)
    with room.place() as place:
        assert place.hold(500, whole=False)
