from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from consumer.fleet import Assign, Cause, End, Fleet, Intention, Kill, Phase, Retire, Spawn, StartMold


class FleetMachine(RuleBasedStateMachine):
    """Workers, mold and orders do whatever they like, in any order; the fleet's promises hold all the same."""

    runs = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet(slots=3)
        self.mold = False
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
                    assert self.mold
                    self.processes.add(worker)
                    self.follow(self.fleet.spawned(worker))
                case Assign(worker=worker, run=run):
                    assert worker in self.processes
                    assert worker not in self.doing, "one run at a time on a worker"
                    assert worker not in self.killed
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
                case StartMold():
                    assert not self.mold
                    assert not self.stopping

    @rule(target=runs, number=st.integers(0, 10**6))
    def order(self, number: int) -> str:
        run = f"run-{len(self.ordered)}-{number}"
        self.ordered.add(run)
        self.follow(self.fleet.ordered(run))
        return run

    @precondition(lambda self: not self.mold)
    @rule()
    def mold_comes(self) -> None:
        self.mold = True
        self.follow(self.fleet.mold_ready())

    @precondition(lambda self: self.mold)
    @rule()
    def mold_dies(self) -> None:
        self.mold = False
        self.follow(self.fleet.mold_lost())
        assert self.killed >= self.processes, "a mold takes its workers along"

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def worker_is_ready(self, data: st.DataObject) -> None:
        starting = [n for n, phase in self.fleet.phases().items() if phase is Phase.STARTING and n not in self.killed]
        if starting:
            self.follow(self.fleet.started(data.draw(st.sampled_from(starting))))

    @precondition(lambda self: self.doing)
    @rule(data=st.data(), last=st.booleans())
    def worker_finishes(self, data: st.DataObject, *, last: bool) -> None:
        worker = data.draw(st.sampled_from(sorted(self.doing)))
        run = self.doing[worker]
        self.follow(self.fleet.finished(worker, run, last=last))
        assert self.ended[run] is Cause.FINISHED

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def worker_dies(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.processes)))
        run = self.doing.get(worker)
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
        assert len(self.fleet.phases()) <= 3

    def teardown(self) -> None:
        """Whatever has happened, a stop ends every run once every worker is dead."""
        self.stopping = True
        self.follow(self.fleet.stop())
        for worker in sorted(self.processes):
            self.follow(self.fleet.exited(worker))
        assert self.fleet.empty
        assert set(self.ended) == self.ordered


TestFleet = FleetMachine.TestCase


def _running(*, slots: int = 1, fresh: bool = False) -> Fleet:
    fleet = Fleet(slots=slots, fresh=fresh)
    for intention in fleet.mold_ready():
        assert isinstance(intention, Spawn)
        fleet.spawned(intention.worker)
        fleet.started(intention.worker)
    return fleet


def test_worker_that_died_young_is_replaced_later_and_later() -> None:
    fleet = Fleet(slots=1)
    delays = []
    (intention,) = fleet.mold_ready()
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
