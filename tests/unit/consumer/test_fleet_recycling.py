from consumer.fleet import Fleet
from consumer.intentions import Assign, Cause, End, EndMold, Intention, Kill, Parting, Retire, Spawn, StartMold
from tests.unit.consumer.fleets import running


def _spawns(intentions: list[Intention]) -> list[int]:
    return [intention.worker for intention in intentions if isinstance(intention, Spawn)]


def _bring_up(fleet: Fleet, worker: int) -> list[Intention]:
    fleet.spawned(worker)
    return fleet.started(worker)


def test_worn_worker_goes_on_until_its_replacement_is_ready() -> None:
    fleet = running()
    fleet.ordered("a")
    fleet.ordered("b")
    end, again, spawn = fleet.finished(1, "a", worn=Parting.RUNS)
    assert (end, again) == (End(run="a", worker=1, cause=Cause.FINISHED), Assign(worker=1, run="b"))
    assert spawn == Spawn(worker=2, after=0)
    assert _bring_up(fleet, 2) == [], "there is one slot, and a run in it"
    fleet.ordered("c")
    assert fleet.finished(1, "b") == [
        End(run="b", worker=1, cause=Cause.FINISHED),
        Retire(worker=1),
        Assign(worker=2, run="c"),
    ]
    assert fleet.parting(1) is Parting.RUNS
    assert fleet.exited(1) == []


def test_worn_worker_without_a_run_leaves_as_soon_as_its_replacement_is_ready() -> None:
    fleet = running()
    fleet.ordered("a")
    fleet.finished(1, "a", worn=Parting.MEMORY)
    assert _bring_up(fleet, 2) == [Retire(worker=1)]
    assert (fleet.ready, fleet.recycling) == (1, 1)


def test_at_most_a_tenth_of_the_slots_is_recycled_at_once() -> None:
    fleet = running(slots=20)
    for number in range(1, 21):
        fleet.ordered(f"run-{number}")
    spawned = [spawn for n in range(1, 21) for spawn in _spawns(fleet.finished(n, f"run-{n}", worn=Parting.RUNS))]
    assert len(spawned) == 2
    retired = [intention for worker in spawned for intention in _bring_up(fleet, worker)]
    assert len(retired) == 2
    assert fleet.ready == 20
    for intention in retired:
        assert isinstance(intention, Retire)
        assert len(_spawns(fleet.exited(intention.worker))) == 1, "the next one's turn"


def test_run_goes_to_a_worker_that_stays_if_there_is_one() -> None:
    fleet = running(slots=2)
    fleet.ordered("a")
    fleet.finished(1, "a", worn=Parting.RUNS)
    assert fleet.ordered("b") == [Assign(worker=2, run="b")]


def test_replacement_takes_the_place_of_a_worker_that_died_instead() -> None:
    fleet = running()
    fleet.ordered("a")
    fleet.finished(1, "a", worn=Parting.RUNS)
    fleet.ordered("b")
    _bring_up(fleet, 2)
    assert fleet.exited(1) == [End(run="b", worker=1, cause=Cause.DIED)]
    assert (fleet.ready, fleet.recycling) == (1, 0)


def test_worker_that_is_used_up_is_replaced_before_it_is_gone() -> None:
    fleet = running()
    fleet.ordered("a")
    _, retire, spawn = fleet.finished(1, "a", last=True)
    assert (retire, spawn) == (Retire(worker=1), Spawn(worker=2, after=0))


def test_worker_that_was_killed_for_being_late_gets_no_run_although_it_says_that_it_is_ready() -> None:
    fleet = Fleet(slots=1)
    fleet.mold_ready(1)
    fleet.spawned(1)
    fleet.ordered("a")
    assert fleet.stuck(1) == [Kill(worker=1)]
    assert fleet.started(1) == []
    assert fleet.parting(1) is Parting.UNREADY


def test_workers_of_a_mold_that_was_replaced_are_recycled_and_then_it_ends() -> None:
    fleet = running(slots=2)
    fleet.ordered("a")
    assert fleet.mold_grown() == [StartMold(after=0)]
    assert fleet.mold_grown() == [], "one successor at a time"
    assert _spawns(fleet.mold_ready(2)) == [3]
    assert _bring_up(fleet, 3) == [Retire(worker=2)]
    assert _spawns(fleet.exited(2)) == [4]
    assert _bring_up(fleet, 4) == []
    assert fleet.mold_grown() == [], "the old one still has a worker"
    assert Retire(worker=1) in fleet.finished(1, "a")
    assert fleet.exited(1) == [EndMold(mold=1)]
    assert fleet.ready == 2


def test_successor_that_cannot_be_loaded_is_tried_again_later_and_harms_nobody() -> None:
    fleet = running()
    fleet.ordered("a")
    fleet.mold_grown()
    assert fleet.mold_lost(2) == [StartMold(after=60)]
    assert fleet.mold_lost(1) == [Kill(worker=1), StartMold(after=0)], "now it is urgent"


def test_worker_that_is_watched_is_never_recycled() -> None:
    fleet = Fleet(slots=1)
    fleet.mold_ready(1)
    fleet.spawned(1, exempt=True)
    fleet.started(1)
    fleet.ordered("a")
    assert fleet.finished(1, "a", worn=Parting.RUNS) == [End(run="a", worker=1, cause=Cause.FINISHED)]
    fleet.mold_grown()
    assert fleet.mold_ready(2) == []
