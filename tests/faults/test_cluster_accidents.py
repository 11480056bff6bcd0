"""A broker of three nodes loses the one that leads the work (failure table row 5)."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import need_rabbitmq
from tests.support.cluster import Cluster
from tests.support.house import House
from tests.support.program import Programs
from tests.support.waiting import eventually


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    need_rabbitmq()
    with Cluster(tmp_path / "cluster") as formed:
        yield formed


@pytest.mark.timeout(500)
def test_leader_of_the_work_queue_killed_loses_nothing_charges_nobody_and_work_goes_on(
    cluster: Cluster, prefix: str, programs: Programs, tmp_path: Path
) -> None:
    house = House(programs, cluster.urls(), prefix, tmp_path, extra={"LAZARETTO_QUEUE_SETTLE": "4s"})
    house.door(), house.station()
    leader = cluster.leader(f"{prefix}.work")
    other = next(name for name in cluster.names() if name != leader)
    beside_it = house.node(workers=3, LAZARETTO_BROKER_URL=cluster.urls(leader))
    elsewhere = house.node(workers=3, LAZARETTO_BROKER_URL=cluster.urls(other))
    assert house.balance([house.accepted("good", f"first-{n}") for n in range(8)], 60.0) == Counter(done=8)
    running = [house.accepted("stubborn.leader", f"running-{n}") for n in range(6)]
    eventually(lambda: len([start for start in house.starts() if start.ticket in running]) == 6, 60.0)
    waiting = [house.accepted("good", f"waiting-{n}") for n in range(20)]
    cluster.kill(leader)
    beside_it.wait_for_log("session.lost", 60.0)
    eventually(lambda: sum(node.log.count("run.outage ticket=running") for node in (beside_it, elsewhere)) == 3, 60.0)
    house.open_gate("stubborn.leader")
    eventually(lambda: house.submit("good", "after").status == 202, 60.0)
    tickets = [*running, *waiting, "after"]
    assert house.balance(tickets, 150.0) == Counter(done=27)
    outcomes = Counter(outcome for ticket in tickets for outcome in house.runs(ticket))
    assert not outcomes.keys() - {"succeeded", "outage"}, outcomes
    assert outcomes["outage"] == 3, "those of the node beside it, whose runs were ended"
    assert {start.attempt for start in house.starts()} == {1}
