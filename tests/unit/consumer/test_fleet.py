from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from consumer.fleet import Fleet
from consumer.intentions import Assign, Cause, End, EndMold, Intention, Kill, Parting, Phase, Retire, Spawn, StartMold


class FleetMachine(RuleBasedStateMachine):
    """Workers, mold and orders do whatever they like, in any order; the fleet's promises hold all the same."""

    runs = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet(slots=3)
        self.molds: set[int] = set()
        self.asked = 1
        """Molds that were asked for so far; each gets the next number."""
        self.loading = True
        self.forked_from: dict[int, int] = {}
        self.retired: set[int] = set()
        self.processes: set[int] = set()
        self.doing: dict[int, str] = {}
        self.ordered: set[str] = set()
        self.ended: dict[str, Cause] = {}
        self.killed: set[int] = set()
        self.stopping = False

    def follow(self, intentions: list[Intention]) -> None:
        for intention in intentions:
            match intention:
                case Spawn(worker=worker):
                    assert self.fleet.expected(worker)
                    assert self.fleet.mold in self.molds
                    self.processes.add(worker)
                    self.forked_from[worker] = self.fleet.mold
                    self.follow(self.fleet.spawned(worker, exempt=worker == 2))
                case Assign(worker=worker, run=run):
                    assert worker in self.processes
                    assert worker not in self.doing, "one run at a time on a worker"
                    assert worker not in self.killed
                    assert worker not in self.retired, "nothing for a worker that leaves"
                    self.doing[worker] = run
                case End(run=run, worker=worker):
                    assert run in self.ordered
                    assert run not in self.ended, "one ending for every run"
                    self.ended[run] = intention.cause
                    if worker is not None:
                        assert self.doing.pop(worker) == run
                case Kill(worker=worker):
                    assert worker in self.processes
                    self.killed.add(worker)
                case Retire(worker=worker):
                    assert worker not in self.doing
                    self.retired.add(worker)
                case StartMold():
                    assert not self.stopping
                    self.loading = True
                case EndMold(mold=mold):
                    assert mold in self.molds
                    assert mold != self.fleet.mold
                    assert mold not in {self.forked_from[worker] for worker in self.processes}
                    self.molds.remove(mold)

    @rule(target=runs, number=st.integers(0, 10**6))
    def order(self, number: int) -> str:
        run = f"run-{len(self.ordered)}-{number}"
        self.ordered.add(run)
        self.follow(self.fleet.ordered(run))
        return run

    @precondition(lambda self: self.loading)
    @rule()
    def mold_comes(self) -> None:
        self.loading = False
        self.molds.add(self.asked)
        self.asked += 1
        self.follow(self.fleet.mold_ready(self.asked - 1))

    @precondition(lambda self: self.loading)
    @rule()
    def mold_dies_while_it_loads(self) -> None:
        self.loading = False
        self.asked += 1
        before = set(self.killed)
        self.follow(self.fleet.mold_lost(self.asked - 1))
        assert self.killed == before, "it had no workers"
        assert self.loading is not self.stopping

    @precondition(lambda self: self.molds)
    @rule(data=st.data())
    def mold_dies(self, data: st.DataObject) -> None:
        mold = data.draw(st.sampled_from(sorted(self.molds)))
        self.molds.remove(mold)
        current = mold == self.fleet.mold
        others = {worker for worker in self.processes - self.killed if self.forked_from[worker] != mold}
        self.follow(self.fleet.mold_lost(mold))
        theirs = {worker for worker in self.processes if self.forked_from[worker] == mold}
        assert self.killed >= theirs, "a mold takes its workers along"
        assert not self.killed & others, "and nobody else's"
        assert self.loading or self.stopping or not current

    @rule()
    def mold_grows(self) -> None:
        self.follow(self.fleet.mold_grown())

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def worker_is_ready(self, data: st.DataObject) -> None:
        starting = [n for n, phase in self.fleet.phases().items() if phase is Phase.STARTING and n not in self.killed]
        if starting:
            self.follow(self.fleet.started(data.draw(st.sampled_from(starting))))

    @precondition(lambda self: self.doing)
    @rule(
        data=st.data(),
        last=st.integers(0, 9),
        worn=st.sampled_from([None, None, Parting.RUNS, Parting.MEMORY]),
    )
    def worker_finishes(self, data: st.DataObject, *, last: int, worn: Parting | None) -> None:
        worker = data.draw(st.sampled_from(sorted(self.doing)))
        run = self.doing[worker]
        ready = self.fleet.ready
        self.follow(self.fleet.finished(worker, run, last=last == 0, worn=worn))
        assert last == 0 or self.stopping or worker in self.killed or self.fleet.ready == ready, (
            "recycling takes no place away before another worker is in it"
        )
        assert self.ended[run] is Cause.FINISHED

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def worker_ends(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.processes)))
        run = self.doing.get(worker)
        parting = self.fleet.parting(worker)
        if worker in self.retired and worker not in self.killed:
            assert isinstance(parting, Parting), "who leaves as told is no crash"
        if run is not None and worker not in self.killed:
            assert parting is Cause.DIED
        self.processes.discard(worker)
        self.follow(self.fleet.exited(worker))
        assert run is None or run in self.ended, "a dead worker runs nothing"
        if run is not None and worker not in self.killed:
            assert self.ended[run] is Cause.DIED
        self.killed.discard(worker)

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def worker_lies(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.processes)))
        self.follow(self.fleet.finished(worker, "no such run"))
        assert worker in self.killed

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def worker_is_late(self, data: st.DataObject) -> None:
        self.follow(self.fleet.stuck(data.draw(st.sampled_from(sorted(self.processes)))))

    @rule(run=runs, cause=st.sampled_from([Cause.DEADLINE, Cause.MEMORY, Cause.REVOKED]))
    def run_is_overdue(self, run: str, cause: Cause) -> None:
        self.follow(self.fleet.overdue(run, cause))

    @rule(run=runs)
    def run_is_revoked(self, run: str) -> None:
        self.follow(self.fleet.revoked(run))

    @precondition(lambda self: len(self.ordered) > 8)
    @rule()
    def fleet_stops(self) -> None:
        self.stopping = True
        self.follow(self.fleet.stop())

    @invariant()
    def registry_knows_what_runs(self) -> None:
        assert dict(self.fleet.busy()) == self.doing
        assert len(self.doing) <= self.fleet.ready <= 3
        assert len(self.fleet.phases()) <= 3 + 1
        assert self.fleet.recycling <= 1

    def teardown(self) -> None:
        """Whatever has happened, a stop ends every run once every worker is dead."""
        self.stopping = True
        self.follow(self.fleet.stop())
        for worker in sorted(self.processes):
            self.processes.remove(worker)
            self.follow(self.fleet.exited(worker))
        assert self.fleet.empty
        assert set(self.ended) == self.ordered


TestFleet = FleetMachine.TestCase


def _running(*, slots: int = 1, fresh: bool = False) -> Fleet:
    fleet = Fleet(slots=slots, fresh=fresh)
    for intention in fleet.mold_ready(1):
        assert isinstance(intention, Spawn)
        fleet.spawned(intention.worker)
        fleet.started(intention.worker)
    return fleet


def test_worker_that_died_young_is_replaced_later_and_later() -> None:
    fleet = Fleet(slots=1)
    delays = []
    (intention,) = fleet.mold_ready(1)
    for _ in range(8):
        assert isinstance(intention, Spawn)
        delays.append(intention.after)
        fleet.spawned(intention.worker)
        (intention,) = fleet.exited(intention.worker)
    assert delays == [0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]


def test_worker_that_died_of_its_run_is_replaced_at_once() -> None:
    fleet = _running()
    (assign,) = fleet.ordered("a")
    assert isinstance(assign, Assign)
    end, spawn = fleet.exited(assign.worker)
    assert end == End(run="a", worker=assign.worker, cause=Cause.DIED)
    assert isinstance(spawn, Spawn)
    assert spawn.after == 0


def test_first_cause_of_a_death_is_the_one_that_counts() -> None:
    fleet = _running()
    fleet.ordered("a")
    fleet.overdue("a", Cause.MEMORY)
    fleet.overdue("a", Cause.DEADLINE)
    assert fleet.exited(1)[0] == End(run="a", worker=1, cause=Cause.MEMORY)


def test_run_that_was_quicker_than_its_kill_has_finished() -> None:
    fleet = _running()
    fleet.ordered("a")
    fleet.overdue("a", Cause.DEADLINE)
    assert fleet.finished(1, "a") == [End(run="a", worker=1, cause=Cause.FINISHED)]
    assert fleet.ordered("b") == [], "the worker is as good as dead"


def test_fresh_fleet_retires_a_worker_after_its_run() -> None:
    fleet = _running(fresh=True)
    fleet.ordered("a")
    assert fleet.finished(1, "a") == [End(run="a", worker=1, cause=Cause.FINISHED), Retire(worker=1)]


def _spawns(intentions: list[Intention]) -> list[int]:
    return [intention.worker for intention in intentions if isinstance(intention, Spawn)]


def _bring_up(fleet: Fleet, worker: int) -> list[Intention]:
    fleet.spawned(worker)
    return fleet.started(worker)


def test_worn_worker_goes_on_until_its_replacement_is_ready() -> None:
    fleet = _running()
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
    fleet = _running()
    fleet.ordered("a")
    fleet.finished(1, "a", worn=Parting.MEMORY)
    assert _bring_up(fleet, 2) == [Retire(worker=1)]
    assert (fleet.ready, fleet.recycling) == (1, 1)


def test_at_most_a_tenth_of_the_slots_is_recycled_at_once() -> None:
    fleet = _running(slots=20)
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
    fleet = _running(slots=2)
    fleet.ordered("a")
    fleet.finished(1, "a", worn=Parting.RUNS)
    assert fleet.ordered("b") == [Assign(worker=2, run="b")]


def test_replacement_takes_the_place_of_a_worker_that_died_instead() -> None:
    fleet = _running()
    fleet.ordered("a")
    fleet.finished(1, "a", worn=Parting.RUNS)
    fleet.ordered("b")
    _bring_up(fleet, 2)
    assert fleet.exited(1) == [End(run="b", worker=1, cause=Cause.DIED)]
    assert (fleet.ready, fleet.recycling) == (1, 0)


def test_worker_that_is_used_up_is_replaced_before_it_is_gone() -> None:
    fleet = _running()
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
    fleet = _running(slots=2)
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
    fleet = _running()
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
