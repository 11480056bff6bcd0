"""A full door closes who has been quiet for longest, never who has a request under way, and turns others away."""

from dataclasses import dataclass

from gateway.metrics import Metrics
from gateway.open_connections import QUIET_AFTER, OpenConnections

MOST = 3


@dataclass(eq=False)
class Client:
    """A connection as the bound sees it."""

    since: float | None
    dropped: bool = False

    def quiet_since(self) -> float | None:
        """Return since when nothing was asked."""
        return self.since

    def drop(self) -> None:
        """Be closed."""
        self.dropped = True


class Now:
    """The time of a test."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def _full(now: Now, *since: float | None) -> tuple[OpenConnections, list[Client]]:
    connections = OpenConnections(MOST, Metrics(), now)
    clients = [Client(each) for each in since]
    for client in clients:
        assert connections.admit()
        connections.opened(client)
    return connections, clients


def test_the_one_that_was_quiet_first_gives_way() -> None:
    connections, clients = _full(Now(), None, 1.0, 2.0)

    assert connections.admit()

    assert [client.dropped for client in clients] == [False, True, False]


def test_nobody_gives_way_who_is_being_answered_or_had_no_time_to_ask() -> None:
    now = Now()
    connections, clients = _full(now, None, now.at, now.at - QUIET_AFTER / 2)

    assert not connections.admit()
    now.at += QUIET_AFTER

    assert connections.admit()
    assert [client.dropped for client in clients] == [False, True, False]


def test_a_place_that_was_left_is_free() -> None:
    connections, clients = _full(Now(), None, None, None)
    assert not connections.admit()

    connections.closed(clients[1])

    assert connections.admit()
    assert not any(client.dropped for client in clients)


def test_those_whose_handshake_never_ended_take_nobodys_place_for_good() -> None:
    now = Now()
    connections = OpenConnections(5000, Metrics(), now)

    for _ in range(15_000):
        now.at += 0.01
        assert connections.admit()
