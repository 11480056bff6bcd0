"""A fleet of a thousand nodes does not move in waves, whatever it has in common: by the rules, without a clock."""

import pytest

from benchmarks.fleet import DOWN_FOR, NODES, RATE, RUN_SECONDS, RUNS, SETTLED, SLOTS, UNTIL
from benchmarks.on_paper.probing import Calls, calls
from benchmarks.on_paper.replacing import recycles
from benchmarks.on_paper.retries import retries
from benchmarks.on_paper.storming import first_runs
from benchmarks.on_paper.waves import in_ladder, peak, series
from consumer.policy import Policy
from gateway.contract.topology import Topology

WORKERS = NODES * SLOTS
SEEDS = (1, 2)

each_seed = pytest.mark.parametrize("seed", SEEDS)


@pytest.fixture(scope="module", params=SEEDS)
def called(request: pytest.FixtureRequest) -> Calls:
    return calls(NODES, seed=request.param, rate=RATE, down_for=DOWN_FOR, until=UNTIL)


@each_seed
def test_items_that_failed_in_one_moment_come_back_evenly_over_their_backoff(seed: int) -> None:
    policy = Policy()
    even = WORKERS / policy.backoff_base
    moments = retries(WORKERS, seed=seed, policy=policy)
    assert len(moments) == WORKERS * (policy.max_attempts - 1)
    assert peak(moments) < 2 * even
    assert peak(retries(WORKERS, seed=seed, policy=policy, is_jittered=False)) == WORKERS


@each_seed
def test_longer_backoffs_do_not_gather_at_the_marks_of_the_delay_ladder(seed: int) -> None:
    policy = Policy(max_attempts=10)
    moments = retries(WORKERS, seed=seed, policy=policy)
    first_rounds = peak([moment for moment in moments if moment < 60])
    assert peak([moment for moment in moments if moment >= 60]) <= first_rounds


@each_seed
def test_workers_that_were_started_in_one_moment_are_never_recycled_in_one(seed: int) -> None:
    moments = recycles(WORKERS, seed=seed, runs=RUNS, run_seconds=RUN_SECONDS, until=10_000.0)
    assert peak(moments) < WORKERS * 0.02  # a tenth of its slots is what a node may have away
    assert peak(recycles(WORKERS, seed=seed, runs=RUNS, run_seconds=RUN_SECONDS, until=1500.0, is_jittered=False)) > (
        WORKERS * 0.99
    )


@each_seed
def test_recycling_spreads_further_with_every_generation(seed: int) -> None:
    moments = recycles(WORKERS, seed=seed, runs=RUNS, run_seconds=RUN_SECONDS, until=10_000.0)
    first, last = ([at for at in moments if begin < at < begin + 1000] for begin in (500, 9000))
    assert peak(last) < peak(first) / 1.5


def test_while_a_dependency_is_down_a_thousand_nodes_call_it_less_than_they_usually_do(called: Calls) -> None:
    probes = [at for at in called.probes if at > SETTLED]
    assert len(probes) / (DOWN_FOR - SETTLED) < RATE / 5
    assert peak(called.probes) < RATE


def test_their_probes_fall_into_no_step_so_that_its_return_is_noticed_at_once(called: Calls) -> None:
    probes = series(called.probes, until=DOWN_FOR, step=10)[int(SETTLED) // 10 :]
    assert min(probes) > 0.5
    assert max(probes) < 10 * min(probes) + 10
    assert min(called.after) - DOWN_FOR < 10


def test_a_dependency_that_is_back_sees_about_twice_what_it_usually_does(called: Calls) -> None:
    assert max(series(called.after, until=UNTIL, step=10)) < 2.5 * RATE
    last = series(called.after, until=UNTIL, step=10)[-20:]
    assert sum(last) / len(last) < 1.2 * RATE


def test_a_deadly_build_costs_a_fleet_as_many_attempts_as_a_single_node() -> None:
    fleet, node = (first_runs(runs, seed=1, deadly=1.0) for runs in (WORKERS, SLOTS))
    assert fleet == node
    assert fleet.is_stopped
    assert fleet.charged == 4


@each_seed
def test_a_build_that_loses_a_worker_now_and_then_is_not_stopped(seed: int) -> None:
    assert not first_runs(10 * WORKERS, seed=seed, deadly=0.05).is_stopped


def test_the_ladder_is_asked_for_its_own_arithmetic() -> None:
    topology = Topology()
    assert [in_ladder(topology, seconds) for seconds in (0.0, 0.2, 30.0, 65.0, 70_000.0)] == [0, 1, 30, 66, 71_680]
