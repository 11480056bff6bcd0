"""Fleets in a state that a test begins with."""

from consumer.fleet import Fleet
from consumer.intentions import Spawn


def running(*, slots: int = 1, fresh: bool = False) -> Fleet:
    fleet = Fleet(slots=slots, fresh=fresh)
    for intention in fleet.mold_ready(1):
        assert isinstance(intention, Spawn)
        fleet.spawned(intention.worker)
        fleet.started(intention.worker)
    return fleet
