import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from consumer.fleet import Fleet
from consumer.intentions import (
    Assign,
    Cause,
    Disclaim,
    End,
    EndMold,
    Intention,
    Kill,
    Parting,
    Phase,
    Retire,
    Spawn,
    StartMold,
)
from tests.unit.consumer.fleets import running


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
        self.unseen: set[int] = set()
        """Workers that are dead already, which nobody has noticed."""
        self.missed: set[int] = set()
        self.processes: set[int] = set()
        self.planned: set[int] = set()
        """Workers that are to be spawned later."""
        self.doing: dict[int, str] = {}
        self.ordered: set[str] = set()
        self.ended: dict[str, Cause] = {}
        self.killed: set[int] = set()
        self.stopping = False

    def follow(self, intentions: list[Intention]) -> None:  # noqa: PLR0912  one branch for each intention
        for intention in intentions:
            match intention:
                case Spawn(worker=worker, after=after):
                    assert self.fleet.expected(worker)
                    assert self.fleet.mold in self.molds
                    if after:
                        self.planned.add(worker)
                    else:
                        self.spawn(worker)
                case Assign(worker=worker, run=run):
                    assert worker in self.processes
                    assert worker not in self.doing, "one run at a time on a worker"
                    assert worker not in self.killed
                    assert worker not in self.retired, "nothing for a worker that leaves"
                    assert worker not in self.missed, "nor for one that is known to be dead"
                    if worker in self.unseen:
                        self.missed.add(worker)
                        self.follow(self.fleet.missed(worker, run))
                    else:
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

    def spawn(self, worker: int) -> None:
        self.processes.add(worker)
        self.forked_from[worker] = self.fleet.mold
        self.follow(self.fleet.spawned(worker, exempt=worker == 2))

    @precondition(lambda self: self.planned)
    @rule(data=st.data())
    def time_to_spawn_comes(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.planned)))
        self.planned.discard(worker)
        if self.fleet.expected(worker):
            self.spawn(worker)

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
        undisturbed = not (last == 0 or self.stopping or worker in self.killed or self.missed)
        assert not undisturbed or self.fleet.ready == ready, (
            "recycling takes no place away before another worker is in it"
        )
        assert self.ended[run] is Cause.FINISHED

    @precondition(lambda self: self.processes - self.doing.keys())
    @rule(data=st.data())
    def worker_ends_unseen(self, data: st.DataObject) -> None:
        self.unseen.add(data.draw(st.sampled_from(sorted(self.processes - self.doing.keys()))))

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
        self.unseen.discard(worker)
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
    fleet = running()
    (assign,) = fleet.ordered("a")
    assert isinstance(assign, Assign)
    end, spawn = fleet.exited(assign.worker)
    assert end == End(run="a", worker=assign.worker, cause=Cause.DIED)
    assert isinstance(spawn, Spawn)
    assert spawn.after == 0


def test_first_cause_of_a_death_is_the_one_that_counts() -> None:
    fleet = running()
    fleet.ordered("a")
    fleet.overdue("a", Cause.MEMORY)
    fleet.overdue("a", Cause.DEADLINE)
    assert fleet.exited(1)[0] == End(run="a", worker=1, cause=Cause.MEMORY)


def test_run_that_was_quicker_than_its_kill_has_finished() -> None:
    fleet = running()
    fleet.ordered("a")
    fleet.overdue("a", Cause.DEADLINE)
    assert fleet.finished(1, "a") == [End(run="a", worker=1, cause=Cause.FINISHED)]
    assert fleet.ordered("b") == [], "the worker is as good as dead"


def test_fresh_fleet_retires_a_worker_after_its_run() -> None:
    fleet = running(fresh=True)
    fleet.ordered("a")
    assert fleet.finished(1, "a") == [End(run="a", worker=1, cause=Cause.FINISHED), Retire(worker=1)]


def test_run_cannot_be_ordered_twice() -> None:
    fleet = running()
    fleet.ordered("a")
    with pytest.raises(ValueError, match="a was ordered before"):
        fleet.ordered("a")


def test_run_whose_claim_is_gone_is_not_blamed_for_being_slow() -> None:
    fleet = running()
    fleet.ordered("a")
    assert fleet.revoked("a") == [Disclaim(worker=1, run="a")]
    fleet.overdue("a", Cause.DEADLINE)
    assert fleet.exited(1)[0] == End(run="a", worker=1, cause=Cause.REVOKED)


def test_run_that_is_unknown_has_no_claim_to_lose() -> None:
    assert running().revoked("never ordered") == []


def test_worker_that_says_it_is_ready_twice_talks_nonsense() -> None:
    fleet = running()
    assert fleet.started(1) == [Kill(worker=1)]
    assert fleet.leaving(1)
    assert not fleet.leaving(2)


def test_news_of_a_worker_that_is_gone_changes_nothing() -> None:
    fleet = running()
    fleet.exited(1)
    assert fleet.started(1) == fleet.stuck(1) == fleet.garbled(1) == fleet.exited(1) == fleet.missed(1, "a") == []


def test_worker_that_was_only_planned_never_was_when_its_mold_is_lost() -> None:
    fleet = Fleet(slots=1)
    fleet.mold_ready(1)
    fleet.spawned(1)
    assert fleet.exited(1) == [Spawn(worker=2, after=0.1)]
    assert fleet.mold_lost(1) == [StartMold(after=0)]
    assert not fleet.expected(2)
    assert fleet.empty
