"""Workers that die between two runs, or before their first one, and the end of the fleet."""

from consumer.intentions import Assign, Cause, End, Parting, Retire, Spawn
from tests.unit.consumer.fleets import running


def test_run_that_a_dead_worker_was_to_have_waits_for_the_next_one() -> None:
    fleet = running()
    fleet.ordered("a")
    assert fleet.missed(1, "a") == []
    assert fleet.parting(1) is Cause.DIED
    assert fleet.exited(1) == [Spawn(worker=2, after=0.1)]
    fleet.spawned(2)
    assert fleet.started(2) == [Assign(worker=2, run="a")]


def test_stop_forgets_workers_that_are_only_planned_and_waits_for_those_that_leave() -> None:
    fleet = running(slots=2)
    fleet.ordered("a")
    fleet.finished(1, "a", last=True)
    fleet.exited(2)
    assert fleet.stop() == []
    assert not fleet.empty
    fleet.exited(1)
    assert fleet.empty


def test_run_that_was_revoked_on_its_way_to_a_dead_worker_is_over() -> None:
    fleet = running()
    fleet.ordered("a")
    fleet.revoked("a")
    assert fleet.missed(1, "a") == [End(run="a", worker=None, cause=Cause.REVOKED)]
    assert fleet.exited(1) == [Spawn(worker=2, after=0.1)]


def test_run_on_its_way_to_a_dead_worker_is_over_when_the_fleet_stops() -> None:
    fleet = running()
    fleet.ordered("a")
    fleet.stop()
    assert fleet.missed(1, "a") == [End(run="a", worker=None, cause=Cause.STOPPED)]
    assert fleet.exited(1) == []
    assert fleet.empty


def test_workers_that_die_as_soon_as_they_are_ready_are_replaced_later_and_later_although_runs_wait() -> None:
    fleet = running()
    fleet.ordered("a")
    worker, delays = 1, []
    for _ in range(4):
        (spawn,) = [one for one in (*fleet.missed(worker, "a"), *fleet.exited(worker)) if isinstance(one, Spawn)]
        delays.append(spawn.after)
        worker = spawn.worker
        fleet.spawned(worker)
        fleet.started(worker)
    assert delays == [0.1, 0.2, 0.4, 0.8]
    fleet.finished(worker, "a")
    assert fleet.failures == 0


def test_worker_that_talks_nonsense_before_its_first_run_has_died_young() -> None:
    fleet = running()
    fleet.garbled(1)
    assert fleet.exited(1) == [Spawn(worker=2, after=0.1)]


def test_worker_that_is_gone_although_its_place_was_never_missing_is_not_replaced_by_a_worn_one() -> None:
    fleet = running(slots=2)
    fleet.ordered("a")
    _, spawn = fleet.finished(1, "a", worn=Parting.RUNS)
    assert isinstance(spawn, Spawn)
    fleet.spawned(spawn.worker)
    fleet.exited(1)
    assert fleet.started(spawn.worker) == []
    assert fleet.ready == 2


def test_stop_lets_those_go_that_have_no_run_and_kills_those_that_have_one() -> None:
    fleet = running(slots=2)
    fleet.ordered("a")
    fleet.stop()
    assert fleet.ordered("b") == [End(run="b", worker=None, cause=Cause.STOPPED)]
    assert fleet.exited(2) == []
    assert fleet.exited(1) == [End(run="a", worker=1, cause=Cause.STOPPED)]
    assert running(slots=2).stop() == [Retire(worker=1), Retire(worker=2)]
